"""Build read-only sessions out of results: the events that our own loop would have written for them.

A step gets a verdict (`Tried`) without a trial, since there is no evidence of ours behind it. The best is the fastest
that passed; the session ends STOPPED, and `SessionSettings.origin` keeps it from ever going on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutegen_core.records.candidate import Author
from cutegen_core.records.event import (
    AnsweredBy,
    Event,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Recorded,
    Role,
    SessionCreated,
    SessionSettings,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    Tried,
)
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind, Status
from cutegen_core.trajectory.store import Store

READ_ONLY = "imported: to look at, not to run"
_NO_PROMPT = "The prompt was not published. Below stands the published record of this step, without its sources."


class Imported(NamedTuple):
    """The result of an import.

    Attributes:
        session: the first session.
        steps: of all sessions together.
        note: counts, and what was missing, for the person.
        sessions: all of them; results of several problems make several.
    """

    session: str
    steps: int
    note: str
    sessions: tuple[str, ...]


@dataclass(frozen=True)
class ImportedStep:
    """A step as far as the file describes it.

    Attributes:
        source: "" where the file has none; the step then has no candidate.
        parent: source it was made from, for the diff; "" for a seed.
        status: None where the file gives no verdict.
        latency_ms: mean GPU time as the file says it, None where it says none.
        record: the rest of the file's record, kept as text.
        at: seconds since the epoch, 0 where unknown.
        note: what is missing or odd about it.
    """

    source: str
    idea: str
    status: Status | None
    parent: str = ""
    message: str = ""
    latency_ms: float | None = None
    record: str = ""
    at: float = 0.0
    repair: bool = False
    note: str = ""


def build_session(store: Store, problem: Problem, origin: str, title: str, steps: Sequence[ImportedStep]) -> str:
    """Store one session and return its id.

    Args:
        origin: where it came from, such as "imported from nodes/ (upstream CuTeGen)".
    """
    settings = SessionSettings(
        problem=store.put_record(problem), problem_name=problem.name, answered_by=AnsweredBy.ELSEWHERE,
        executor=ExecutorKind.ELSEWHERE, arch="", device_name="", max_steps=len(steps), title=title, origin=origin,
    )  # fmt: skip
    began = next((s.at for s in steps if s.at), time.time())
    events: list[tuple[float, Event]] = [(began, SessionCreated(settings))]
    best_ms: float | None = None
    best: str | None = None
    at = began
    for number, step in enumerate(steps, 1):
        at = max(step.at, at)
        outcome = _outcome(step, best_ms, best)
        events += [(at, event) for event in _events(store, number, step, outcome, best)]
        if outcome is Outcome.PROMOTED:
            best, best_ms = store.put(step.source), step.latency_ms
    events.append((at, StateChanged(SessionState.STOPPED, READ_ONLY)))
    return store.adopt([Recorded(seq, moment, event) for seq, (moment, event) in enumerate(events, 1)])


def _events(store: Store, number: int, step: ImportedStep, outcome: Outcome, best: str | None) -> list[Event]:
    parent = store.put(step.parent) if step.parent else None
    events: list[Event] = [StepStarted(number, parent or best, repair=step.repair)]
    if step.record:
        prompt = store.put(_NO_PROMPT)
        role = Role.REPAIR if step.repair else Role.PROPOSER
        events += [
            ModelCalled(number, role, prompt, "as published"),
            ModelAnswered(number, role, prompt, store.put(step.record), finish="published"),
        ]
    if step.source:
        candidate = store.put(step.source)
        events.append(Proposed(number, candidate, Author.IMPORT, step.idea, parent=parent))
        if step.status is not None:
            events.append(Tried(number, candidate, "", step.status, step.message, latency_ms=step.latency_ms))
    note = "; ".join(text for text in (step.note, "" if step.status is None else step.message) if text)
    events.append(StepClosed(number, outcome, note or ("no verdict in the file" if step.status is None else "")))
    return events


def _outcome(step: ImportedStep, best_ms: float | None, best: str | None) -> Outcome:
    if not step.source or step.status is None:
        return Outcome.UNANSWERED
    if step.status is not Status.PASSED:
        return Outcome.FAILED
    if best is None or (step.latency_ms is not None and (best_ms is None or step.latency_ms < best_ms)):
        return Outcome.PROMOTED
    return Outcome.KEPT
