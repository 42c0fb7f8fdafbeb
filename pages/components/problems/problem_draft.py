"""Keep the edited text of a problem as a draft in the store, so that a reload or another tab finds it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.problems import edit, naming, read
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem
from cutegen_core.session.problem_names import free_name
from cutegen_core.trajectory.store import Draft, Store
from pages.components.shared import ui_state

NEW = "new"
WriteText = Callable[[str], None]
"""Saves the changed text of an existing kernel."""

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
    """A problem and its draft, as the page shows them.

    Attributes:
        key: under which the draft is kept.
        original: the edited problem; None for a new one.
        start: the text that editing begins with.
        draft: None without edits.
        problem: the text as a problem; None where it cannot be read, and `error` says why.
        line: of the text that the error names, 0 for none.
        existing: the existing kernel as edited, "" for none; the problem has it if its text names one.
        own_name: of a new problem, made of its text.
        edited_name: of the problem with its edits.
    """

    key: str
    original: Problem | None
    start: str
    draft: Draft | None
    problem: Problem | None
    error: str = ""
    line: int = 0
    existing: str = ""
    own_name: str = NEW
    edited_name: str = ""

    @property
    def text(self) -> str:
        return self.draft.text if self.draft else self.start

    @property
    def name(self) -> str:
        return self.original.name if self.original else self.own_name

    @property
    def origin(self) -> str:
        """What errors of the text call it."""
        return f"{self.original.name if self.original else NEW}.py"

    @property
    def changes(self) -> tuple[str, ...]:
        """The differences from the original that affect verdicts."""
        both = self.draft and self.original and self.problem
        return edit.list_changes(self.original, self.problem) if both else ()  # type: ignore[arg-type]

    @property
    def is_outdated(self) -> bool:
        """Whether the original was changed after editing began."""
        return bool(self.draft and self.original and self.draft.base != self.original.key)

    @property
    def startable(self) -> Problem | None:
        """The problem to start a session on; an edited one has its own name."""
        if self.problem is None or not self.problem.workloads:
            return None
        return replace(self.problem, name=self.edited_name) if self.changes else self.problem


def key_of(problem: Problem | None) -> str:
    """Return the key under which the draft of a problem is kept."""
    return f"problem:{problem.name} of {problem.origin}" if problem else f"problem:{NEW}"


def is_kept(store: Store, problem: Problem) -> bool:
    """Tell whether a problem has a draft."""
    return store.draft(key_of(problem)) is not None


def look(store: Store, original: Problem | None) -> Editing:
    """Read a problem with its draft, if there is one."""
    key = key_of(original)
    draft = store.draft(key)
    start = _start(original)
    if draft is None and original is not None:
        return _named(store, Editing(key, original, start, None, original, existing=original.existing))
    kernel = store.draft(_kernel_key(key))
    existing = kernel.text if kernel else original.existing if original else ""
    return _named(store, _read(Editing(key, original, start, draft, None, existing=existing)))


def _named(store: Store, editing: Editing) -> Editing:
    """Give a new or an edited problem a name that no other problem has."""
    problem = editing.problem
    if problem is None:
        return editing
    if editing.original is not None:
        return editing._replace(edited_name=free_name(store, f"{editing.original.name}_edited", problem))
    name = free_name(store, naming.name_of(problem.source), problem)
    return editing._replace(own_name=name, problem=replace(problem, name=name))


def _start(original: Problem | None) -> str:
    """Return the text to begin with; a file without workloads gets those that were found for it."""
    if original is None:
        return EXAMPLE
    stated = read.read(original.source, original.name, original.origin).workloads
    return original.source if stated else edit.with_workloads(original.source, original.workloads)


def _read(editing: Editing) -> Editing:
    try:
        problem, named = read.read_with_kernel(editing.text, editing.name, editing.origin)
        if named and not editing.existing:
            raise ProblemError(f"EXISTING names {named}: add the kernel below, or remove the name from the text.")
        return editing._replace(problem=replace(problem, existing=editing.existing if named else ""))
    except ProblemError as error:
        return editing._replace(error=str(error), line=read.line_of(error, editing.origin))


def take(store: Store, original: Problem | None, change: Callable[[Problem], Problem]) -> None:
    """Change the problem as it is now; say why where the change is not valid. Called by a click."""
    editing = look(store, original)
    try:
        if editing.problem is None:
            raise ProblemError(editing.error)
        text = edit.rewrite(editing.text, editing.problem, change(editing.problem))
        read.read(text, editing.name, editing.origin)
    except ProblemError as error:
        ui_state.say(f"Not changed. {error}")
        return
    if not write(store, editing, text):
        ui_state.say("Not changed: another tab changed the problem at the same moment. Please try again.")


def write(store: Store, editing: Editing, text: str) -> bool:
    """Save the new text, unless it was changed elsewhere since `editing` was read; tell whether it was saved."""
    new = Draft(editing.original.key if editing.original else "", text)
    if editing.draft is not None:
        return store.replace_draft(editing.key, editing.draft, new)
    if store.draft(editing.key) is not None:
        return False
    store.save_draft(editing.key, new)
    return True


def set_existing(store: Store, original: Problem | None, kernel: str) -> None:
    """Change the existing kernel, "" for none, and name it in the text; a callback."""
    editing = look(store, original)
    try:
        text = edit.with_existing(editing.text, f"{editing.name}.cu" if kernel else "")
    except ProblemError as error:
        ui_state.say(f"Not changed. {error}")
        return
    store.save_draft(_kernel_key(editing.key), Draft("", kernel))
    if not write(store, editing, text):
        ui_state.say("Not changed: another tab changed the problem at the same moment. Please try again.")


def discard(store: Store, editing: Editing) -> None:
    """Discard the draft; a callback."""
    store.save_draft(editing.key, None)
    store.save_draft(_kernel_key(editing.key), None)


def _kernel_key(key: str) -> str:
    return f"existing kernel of {key}"
