"""The corpus: every hostile kernel and every honest control, in the order in which they are tried."""

from __future__ import annotations

from tests.adversarial.case import Case
from tests.adversarial.honest import HONEST
from tests.adversarial.honest_orders import HONEST_ORDERS
from tests.adversarial.hostile_answers import ANSWERS
from tests.adversarial.hostile_host import HOST_CASES
from tests.adversarial.hostile_launch import LAUNCH_CASES
from tests.adversarial.hostile_memory import MEMORY_CASES
from tests.adversarial.hostile_numbers import NUMBER_CASES
from tests.adversarial.hostile_plan import PLAN_CASES
from tests.adversarial.hostile_races import RACE_CASES
from tests.adversarial.hostile_source import SOURCE_CASES

HOSTILE: tuple[Case, ...] = (
    *SOURCE_CASES,
    *MEMORY_CASES,
    *ANSWERS,
    *PLAN_CASES,
    *LAUNCH_CASES,
    *HOST_CASES,
    *RACE_CASES,
    *NUMBER_CASES,
)
CORPUS: tuple[Case, ...] = (*HOSTILE, *HONEST, *HONEST_ORDERS)


def applying(executor: str) -> tuple[Case, ...]:
    """What an executor must have an answer to."""
    return tuple(case for case in CORPUS if case.expected(executor) is not None)


def named(name: str) -> Case:
    return next(case for case in CORPUS if case.name == name)
