"""Show the candidates of a step that has several: what came of each, and whether a person may go on with it."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.event import SessionState
from cutegen_core.records.trial import NO_KERNEL, Mark, Status
from cutegen_core.records.wording import micros
from cutegen_core.trajectory.state import WORKING, Alternative, State, Step


class AlternativeRow(NamedTuple):
    """A candidate of a step.

    Attributes:
        message: what its trial said, or why there is no kernel.
        took: its time, or what a static model expects, in words; "" where there is neither.
        kept: it is the step's own.
        can_choose: a person may go on with it now.
    """

    number: int
    candidate: str
    idea: str
    plan: str
    model: str
    status: Status | None
    message: str
    took: str
    registers: int
    kept: bool
    can_choose: bool


def alternatives(state: State, step: Step) -> tuple[AlternativeRow, ...]:
    """Return the candidates that a step has so far; none where it has one only."""
    return tuple(_row(state, step, other) for other in step.alternatives)


def _row(state: State, step: Step, other: Alternative) -> AlternativeRow:
    tried = other.tried
    kept = bool(other.candidate) and other == step.with_key(step.candidate or "")
    free = state.status not in (*WORKING, SessionState.ACCEPTED) and not state.settings.imported
    chosen_from = step.candidate is not None or step is not state.open_step
    tested = tried is not None and tried.status not in NO_KERNEL
    return AlternativeRow(
        other.number,
        other.candidate,
        other.idea,
        other.plan,
        other.model,
        tried.status if tried else None,
        tried.message if tried else other.note,
        _took(other),
        tried.registers if tried else 0,
        kept,
        free and chosen_from and tested and other.candidate != step.candidate,
    )


def _took(other: Alternative) -> str:
    tried = other.tried
    if tried is None or tried.status is not Status.PASSED:
        return ""
    if tried.latency_ms is not None and Mark.NOT_TIMED not in tried.marks:
        return micros(1000 * tried.latency_ms)
    return f"estimate {micros(tried.estimate_us)}" if tried.estimate_us is not None else ""
