"""Give a problem that nobody named, or an edited one, a name that no other problem of the workspace has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cutegen_core.problems import library, naming, saved
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem
from cutegen_core.trajectory.read import every_summary, state_of
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.summaries import SessionSummary


def free_name(store: Store, name: str, problem: Problem) -> str:
    """Return the name, with a number if another problem has it: a built-in one, a saved one or that of a session.

    A problem that judges kernels by the same text as `problem` is no other one.
    """
    return naming.unused(name, {one for one, content in _named(store, name) if content != _content(problem)})


def _named(store: Store, name: str) -> Iterator[tuple[str, object]]:
    """Yield the names that are this one, or it with a number, each with what it names, None for a broken file."""
    numbered = re.compile(re.escape(name) + r"(_\d+)?")
    yield from ((one, _content(library.load(one))) for one in library.built_in_files() if numbered.fullmatch(one))
    for path in saved.folder().glob("*.py"):
        if numbered.fullmatch(path.stem):
            yield path.stem, _saved(path)
    for session, said in every_summary(store).items():
        if isinstance(said, SessionSummary) and numbered.fullmatch(said.problem):
            yield said.problem, _content(store.record(Problem, state_of(store, session).settings.problem))


def _saved(path: Path) -> object:
    try:
        return _content(library.read_problem(path))
    except ProblemError:
        return None


def _content(problem: Problem) -> object:
    return problem.source, problem.workloads, problem.tolerance, problem.allow, problem.existing
