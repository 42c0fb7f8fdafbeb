"""Choose what a kernel is compared with: the address names it, else the kernel that tells most."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core import views
from cutegen_core.records.event import SessionState
from cutegen_core.views import SessionView, StepView


class Other(NamedTuple):
    """A candidate to compare with."""

    label: str
    candidate: str


def choices(view: SessionView, shown: StepView) -> dict[str, Other]:
    """List what this source can be compared with, the telling one first, itself left out.

    A change is compared with its parent. The result of an accepted session is compared with the seed and with the last
    promoted kernel before it: its parent may be a broken attempt.
    """
    own, parent, best = shown.step.candidate, shown.step.parent or shown.step.base, view.state.best
    found: dict[str, Other] = {}
    if shows_result(view, shown):
        promoted = [p.candidate for p in view.state.promoted if p.candidate != own and p.step < shown.step.number]
        _add(view, found, "seed", promoted[0] if promoted else None)
        _add(view, found, "last promoted", promoted[-1] if len(promoted) > 1 else None)
    _add(view, found, "parent", parent if parent != own else None)
    _add(view, found, "best", best if best != own else None)
    for row in reversed(view.steps):
        if row.candidate and row.candidate != own and row.number != shown.step.number:
            found[str(row.number)] = Other(f"step {row.number}: {row.idea[:40]}", row.candidate)
    return found


def shows_result(view: SessionView, shown: StepView) -> bool:
    """Tell whether the shown step is the result of an accepted session."""
    result = views.outcome_step(view.state) if view.state.status is SessionState.ACCEPTED else None
    return result is not None and result.number == shown.step.number


def _add(view: SessionView, found: dict[str, Other], word: str, candidate: str | None) -> None:
    if candidate:
        step = view.state.step_of(candidate)
        found[word] = Other(f"{word} (step {step.number})" if step else word, candidate)
