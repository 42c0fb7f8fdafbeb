"""The marks of a trial as chips, each with what it means: a word, a shape, an explanation."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.records.trial import Mark, Trial
from cutegen_core.views import MARK_WORDS
from cutegen_core.views.wording import lowered
from pages.components.shared.texts import chip, quiet

_SHAPES = {Mark.UNSTABLE: "▲", Mark.CONFIRM: "◆"}
_SERIOUS = (Mark.UNSTABLE, Mark.CONFIRM)


def chips(marks: Sequence[Mark]) -> str:
    """HTML of one chip a mark; the explanation shows when it is pointed at."""
    return "".join(
        chip(
            f"{_SHAPES.get(mark, '○')} {lowered(mark)}",
            "warning" if mark in _SERIOUS else "quietly",
            MARK_WORDS[mark],
        )
        for mark in marks
    )


def render_explained(trial: Trial) -> None:
    """The same in words, for those who do not point."""
    for mark in trial.marks:
        quiet(f"{_SHAPES.get(mark, '○')} {lowered(mark)}: {MARK_WORDS[mark]}")
