"""The real engine, whose jobs run the double: `python -m tests.engine.double_engine`."""

import sys

from cutegen_core.engine import job_slot
from cutegen_core.engine.__main__ import main
from cutegen_core.records.job import JobKind

DOUBLE = "tests.engine.job_double"


def use_double() -> None:
    job_slot.PROGRAMS[JobKind.GNN] = job_slot.PROGRAMS[JobKind.GNN]._replace(module=DOUBLE)


if __name__ == "__main__":
    use_double()
    sys.exit(main())
