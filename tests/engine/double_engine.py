"""The real engine, whose jobs run the double: `python -m tests.engine.double_engine`.

It prepares nothing for a trial.
"""

import sys

from cutegen_core.engine import job_slot
from cutegen_core.engine.__main__ import main
from cutegen_core.records.job import JobKind
from cutegen_core.wiring import Tools

DOUBLE = "tests.engine.job_double"


def use_double() -> None:
    job_slot.PROGRAMS[JobKind.GNN] = job_slot.PROGRAMS[JobKind.GNN]._replace(module=DOUBLE)


def stay_cold() -> None:
    """Leave out what an engine does meanwhile in a thread of its own."""
    Tools.warm = Tools.warm_compiler = lambda *_: None  # type: ignore[method-assign]


if __name__ == "__main__":
    use_double()
    stay_cold()
    sys.exit(main())
