"""The corpus: every hostile kernel, mistake and honest control, in the order in which they are tried."""

from __future__ import annotations

from tests.adversarial.case import Case
from tests.adversarial.controls import CONTROLS
from tests.adversarial.honest import HONEST
from tests.adversarial.honest_orders import HONEST_ORDERS
from tests.adversarial.honest_tricky import TRICKY
from tests.adversarial.honest_values import HONEST_VALUES
from tests.adversarial.hostile_answers import ANSWERS
from tests.adversarial.hostile_host import HOST_CASES
from tests.adversarial.hostile_launch import LAUNCH_CASES
from tests.adversarial.hostile_memory import MEMORY_CASES
from tests.adversarial.hostile_plan import PLAN_CASES
from tests.adversarial.hostile_races import RACE_CASES
from tests.adversarial.hostile_sizes import SIZE_CASES
from tests.adversarial.hostile_source import SOURCE_CASES
from tests.adversarial.hostile_values import VALUE_CASES
from tests.adversarial.mistakes import MISTAKES

HOSTILE: tuple[Case, ...] = (
    *SOURCE_CASES, *MEMORY_CASES, *ANSWERS, *PLAN_CASES, *LAUNCH_CASES, *HOST_CASES, *RACE_CASES,
    *VALUE_CASES, *SIZE_CASES,
)  # fmt: skip
CORPUS: tuple[Case, ...] = (*HOSTILE, *HONEST, *HONEST_ORDERS, *TRICKY, *HONEST_VALUES)
RIGHT_AND_MISTAKEN: tuple[Case, ...] = (*CONTROLS, *(mistake.case() for mistake in MISTAKES))
WHOLE: tuple[Case, ...] = (*CORPUS, *RIGHT_AND_MISTAKEN)


def applying(executor: str, cases: tuple[Case, ...] = WHOLE) -> tuple[Case, ...]:
    """Return what an executor must have an answer to."""
    return tuple(case for case in cases if case.expected(executor) is not None)


def named(name: str) -> Case:
    return next(case for case in WHOLE if case.name == name)
