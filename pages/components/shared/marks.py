"""Show the marks of a trial as chips: a shape, a word and an explanation each; and the shapes of jobs' states."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.records.job import JobState
from cutegen_core.records.trial import Mark, Trial
from cutegen_core.records.wording import lowered
from cutegen_core.views import MARK_WORDS
from pages.components.shared.texts import chip, quiet

_SHAPES = {Mark.UNSTABLE: "▲", Mark.WIDE_TOLERANCE: "▲", Mark.CONFIRM: "◆"}
JOB_MARKS = {
    JobState.WAITING: "○", JobState.RUNNING: "●", JobState.DONE: "✓", JobState.FAILED: "✗", JobState.STOPPED: "■",
    JobState.INTERRUPTED: "▲",
}  # fmt: skip
_SERIOUS = (Mark.UNSTABLE, Mark.WIDE_TOLERANCE, Mark.CONFIRM)


def chips(marks: Sequence[Mark]) -> str:
    """Write one chip per mark as HTML, with the explanation as its tooltip."""
    return "".join(
        chip(
            f"{_SHAPES.get(mark, '○')} {lowered(mark)}",
            "warning" if mark in _SERIOUS else "quietly",
            MARK_WORDS[mark],
        )
        for mark in marks
    )


def render_explained(trial: Trial) -> None:
    """Draw the marks with their explanations as text, for readers without a pointer."""
    for mark in trial.marks:
        quiet(f"{_SHAPES.get(mark, '○')} {lowered(mark)}: {MARK_WORDS[mark]}")
