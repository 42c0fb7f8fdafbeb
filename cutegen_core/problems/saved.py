"""Save problems under a name in the workspace: one file each, in the form of any problem file, and beside it the
existing kernel of a problem that begins with one.

A saved problem can therefore be shared by sending its files, and `cutegen run --problem` accepts its name or path.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace as replaced
from pathlib import Path

from cutegen_core.machine import workspace
from cutegen_core.problems import edit, read
from cutegen_core.records.errors import ProblemError, UsageError
from cutegen_core.records.problem import Problem

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,63}")


def folder() -> Path:
    """Return the folder of the saved problems."""
    return workspace.home() / "problems"


def path_of(name: str) -> Path:
    """Return the file for that name.

    Raises:
        UsageError: the text cannot be a name.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a problem's name: letters, digits and _ . + - only, beginning with a letter, "
            f"at most 64."
        )
    return folder() / f"{name}.py"


def find(name: str) -> Path | None:
    """Return the file of a saved problem, or None if there is none with that name."""
    path = folder() / f"{name}.py"
    return path if _NAME.fullmatch(name) and path.is_file() else None


def save(name: str, text: str, taken: Collection[str], *, replace: bool = False, existing: str = "") -> Problem:
    """Write the file and return the problem as read back from it.

    Args:
        taken: names of other problems, which would hide this one.
        replace: whether an existing file of that name may be replaced.
        existing: text of the kernel that the problem begins with; it is saved as NAME.cu.

    Raises:
        ProblemError: the text is no problem, or has no workloads yet.
        UsageError: the name cannot be used, or is taken.
    """
    path = path_of(name)
    if name in taken:
        raise UsageError(f"{name} is a built-in problem: save this one under another name.")
    if path.exists() and not replace:
        raise UsageError(f"You have a problem called {name} already: choose another name, or replace it.")
    if existing:
        text = edit.with_existing(text, f"{name}.cu")
    problem, stated = read.read_with_kernel(text, name, str(path))
    if stated and not existing:
        raise ProblemError(
            f"{name} begins with {stated}, which is not here: give the kernel's text, or remove EXISTING."
        )
    if not problem.workloads:
        raise ProblemError(f"{name} has no WORKLOADS yet: load it first, which finds sizes to test with.")
    if existing:
        _write(path.with_suffix(".cu"), existing)
    _write(path, text)
    if not existing:
        path.with_suffix(".cu").unlink(missing_ok=True)
    return replaced(problem, existing=existing)


def remove(name: str) -> None:
    """Remove the problem's files; sessions keep their own copy of the problem."""
    for path in (path_of(name), path_of(name).with_suffix(".cu")):
        path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    workspace.replace_file(path, text)
