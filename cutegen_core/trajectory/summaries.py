"""The line of a session in a list: made from its state, and stored beside its events.

A list of sessions reads one row each and folds nothing. A stored summary counts only where it was made from the last
event, by the code that runs (`fold_digest`); the store drops it where a stored event is changed. Otherwise it is made
again from the events (`read`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from cutegen_core.machine.package import PACKAGE
from cutegen_core.records import as_json
from cutegen_core.records.event import AnsweredBy, SessionState
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.state import State

ROOMS = ("records", "trajectory")
"""What reads events, and folds them to what a summary says."""


@dataclass(frozen=True)
class SessionSummary:
    """What a list shows of a session, and whether the engine has work there.

    Attributes:
        best_idea: of the step with the best kernel, "" before the first.
        works: whether it goes on without a new decision; never an imported one.
        created_at, updated_at: seconds since the epoch.
    """

    problem: str
    answered_by: AnsweredBy
    executor: ExecutorKind
    status: SessionState
    steps: int
    best_idea: str
    works: bool
    created_at: float
    updated_at: float
    origin: str


class SessionRow(NamedTuple):
    """A line of the list of sessions."""

    id: str
    problem: str
    proposer: str
    executor: ExecutorKind
    status: SessionState
    steps: int
    best_idea: str
    created_at: float
    updated_at: float
    origin: str

    @classmethod
    def of(cls, session: str, said: SessionSummary) -> SessionRow:
        return cls(
            session, said.problem, said.answered_by, said.executor, said.status, said.steps, said.best_idea,
            said.created_at, said.updated_at, said.origin,
        )  # fmt: skip


def summarise(state: State) -> SessionSummary:
    settings, best = state.settings, state.best_step
    return SessionSummary(
        settings.problem_name,
        settings.answered_by,
        settings.executor,
        state.status,
        len(state.steps),
        best.idea if best else "",
        state.works,
        state.created_at,
        state.updated_at,
        settings.origin,
    )


def dump(state: State) -> str:
    """Return the summary of a state as it is stored."""
    return as_json.dump(summarise(state))


def load(text: str) -> SessionSummary:
    return as_json.load(SessionSummary, text)


@cache
def fold_digest() -> str:
    """Return the digest of the code that makes summaries of events; it is made once and takes a few milliseconds."""
    made = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((PACKAGE / room).glob("*.py")):
            made.update(path.name.encode() + path.read_bytes())
    return made.hexdigest()
