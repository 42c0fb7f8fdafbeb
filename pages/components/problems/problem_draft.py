"""The edited text of a problem: a draft in the store, so that a reload or another tab finds it as it was left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.problems import edit, read
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem
from cutegen_core.trajectory.store import Draft, Store
from pages.components.shared import ui_state

NEW = "new"
EXAMPLE = '''\
import torch
import torch.nn as nn


class Model(nn.Module):
    """What a kernel must compute."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


batch_size = 4096
dim = 16384


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
'''


class Editing(NamedTuple):
    """A problem as it stands on the page.

    Attributes:
        key: under which its draft is kept.
        original: what is edited; None for a new one.
        start: the text that editing begins with.
        draft: None while nothing is edited.
        problem: what the text says; None where it cannot be read, and `error` says why.
        line: of the text that the error names, 0 for none.
    """

    key: str
    original: Problem | None
    start: str
    draft: Draft | None
    problem: Problem | None
    error: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        return self.draft.text if self.draft else self.start

    @property
    def name(self) -> str:
        return self.original.name if self.original else NEW

    @property
    def changes(self) -> tuple[str, ...]:
        """What is judged differently from the original."""
        both = self.draft and self.original and self.problem
        return edit.list_changes(self.original, self.problem) if both else ()  # type: ignore[arg-type]

    @property
    def is_outdated(self) -> bool:
        """The original was changed after its editing began."""
        return bool(self.draft and self.original and self.draft.base != self.original.key)

    @property
    def startable(self) -> Problem | None:
        """What a session is started on: an edited problem goes by a name of its own."""
        if self.problem is None or not self.problem.workloads:
            return None
        return replace(self.problem, name=f"{self.name}_edited") if self.changes else self.problem


def key_of(problem: Problem | None) -> str:
    """Under which key the draft of a problem is kept."""
    return f"problem:{problem.name} of {problem.origin}" if problem else f"problem:{NEW}"


def is_kept(store: Store, problem: Problem) -> bool:
    """Whether there is a draft of it."""
    return store.draft(key_of(problem)) is not None


def look(store: Store, original: Problem | None) -> Editing:
    """The problem with its draft, if there is one."""
    key = key_of(original)
    draft = store.draft(key)
    start = _start(original)
    if draft is None and original is not None:
        return Editing(key, original, start, None, original)
    return _read(Editing(key, original, start, draft, None))


def _start(original: Problem | None) -> str:
    """A file without workloads gets those that were found for it."""
    if original is None:
        return EXAMPLE
    stated = read.read(original.source, original.name, original.origin).workloads
    return original.source if stated else edit.with_workloads(original.source, original.workloads)


def _read(editing: Editing) -> Editing:
    origin = f"{editing.name}.py"
    try:
        return editing._replace(problem=read.read(editing.text, editing.name, origin))
    except ProblemError as error:
        return editing._replace(error=str(error), line=read.line_of(error, origin))


def take(store: Store, original: Problem | None, change: Callable[[Problem], Problem]) -> None:
    """In a click: the problem as it is now, changed. What makes no sense is said, and nothing changes."""
    editing = look(store, original)
    try:
        if editing.problem is None:
            raise ProblemError(editing.error)
        text = edit.rewrite(editing.text, editing.problem, change(editing.problem))
        read.read(text, editing.name, f"{editing.name}.py")
    except ProblemError as error:
        ui_state.say(f"Not changed. {error}")
        return
    if not write(store, editing, text):
        ui_state.say("Not changed: it was changed in another tab at the same moment. Please change it again.")


def write(store: Store, editing: Editing, text: str) -> bool:
    """In a click: the text as it now is. False when it was changed elsewhere since `editing` was looked at."""
    new = Draft(editing.original.key if editing.original else "", text)
    if editing.draft is not None:
        return store.replace_draft(editing.key, editing.draft, new)
    if store.draft(editing.key) is not None:
        return False
    store.save_draft(editing.key, new)
    return True


def discard(store: Store, editing: Editing) -> None:
    """Callback: back to the original."""
    store.save_draft(editing.key, None)
