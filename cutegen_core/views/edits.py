"""Name the edits of older sessions, whose records say "edited by hand", by what they changed."""

from __future__ import annotations

from functools import lru_cache

from cutegen_core.kernel.edit_words import say_edit
from cutegen_core.records.candidate import Author
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views.session import StepRow

UNNAMED = "edited by hand"


def idea_of(store: Store, step: Step | StepRow) -> str:
    """Return what a step tries in a line."""
    named = step.idea != UNNAMED or step.author is not Author.PERSON or not step.candidate or not step.parent
    return step.idea if named else _named(store, step.parent or "", step.candidate or "")


@lru_cache(maxsize=4096)
def _named(store: Store, parent: str, candidate: str) -> str:
    return say_edit(store.text(parent), store.text(candidate))
