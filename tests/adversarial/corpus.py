"""The corpus: every hostile kernel and every honest control, in the order in which they are tried."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case
from tests.adversarial.honest import HONEST
from tests.adversarial.honest_orders import HONEST_ORDERS
from tests.adversarial.hostile_answers import ANSWERS
from tests.adversarial.hostile_host import HOST_CASES
from tests.adversarial.hostile_launch import LAUNCH_CASES
from tests.adversarial.hostile_memory import MEMORY_CASES
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
)
CORPUS: tuple[Case, ...] = (*HOSTILE, *HONEST, *HONEST_ORDERS)


BY_DEFAULT = frozenset((
    "more registers than a block has", "more threads than its launch bounds", "clusters the plan does not know",
    "asks for a limit of the host's headers", "asks through a macro of its own", "pastes a name and shows it",
    "reads the clock under another name", "reads one byte of what another block wrote",
    "a __device__ counter without atomics",
    "the last block with the fence behind the atomic", "a fence alone",
    "reads its own output through the read-only cache",
    "reads past the end at larger sizes only", "__expf far from zero", "a rounding that contraction takes away",
    "last block, volatile reads", "a lock between blocks", "macros of its own",
))  # fmt: skip
"""Of the groups below, one of each kind; the others are thorough."""
THOROUGH_GROUPS: tuple[Case, ...] = (*LAUNCH_CASES, *HOST_CASES, *RACE_CASES, *HONEST_ORDERS)


def is_thorough(case: Case) -> bool:
    """Tell whether a case shows in more detail what another one shows by default; refusals cost nothing and stay."""
    wanted = case.expected("cpu")
    refused_early = wanted is not None and wanted.statuses == (Status.REJECTED,) and case.gpu is not None
    return case in THOROUGH_GROUPS and case.name not in BY_DEFAULT and not refused_early


def applying(executor: str) -> tuple[Case, ...]:
    """What an executor must have an answer to."""
    return tuple(case for case in CORPUS if case.expected(executor) is not None)


def named(name: str) -> Case:
    return next(case for case in CORPUS if case.name == name)
