"""Show sessions and steps, as rows and in full, from the store alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Gate
from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import ModelAnswered, Outcome, Role, SessionState, Tried
from cutegen_core.records.performance import ShapeTime
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Mark, Status, Trial
from cutegen_core.trajectory.read import every_summary, state_of, trial_of
from cutegen_core.trajectory.state import WORKING, State, Step
from cutegen_core.trajectory.store import ENGINE_LINE, Store
from cutegen_core.trajectory.summaries import SessionRow, SessionSummary
from cutegen_core.views.rail import RailStop, rail
from cutegen_core.views.wording import no_step


class StepRow(NamedTuple):
    """A line of the timeline; `suite_step` is the step whose suite judged it, None for the problem's own workloads."""

    number: int
    idea: str
    author: Author | None
    candidate: str | None
    parent: str | None
    status: Status | None
    outcome: Outcome | None
    message: str
    registers: int
    spill_bytes: int
    smem_bytes: int
    latency_ms: float | None
    shapes: tuple[ShapeTime, ...]
    at: float
    is_best: bool
    is_base: bool
    suite_step: int | None

    @property
    def was_best(self) -> bool:
        """Whether it passes and is, or was, the best: a kernel that was only kept, since it regressed, never was."""
        return self.status is Status.PASSED and (self.is_best or self.outcome is Outcome.PROMOTED)


class SessionView(NamedTuple):
    """Everything that the header, the rail, the timeline and the decide bar draw."""

    id: str
    state: State
    problem: Problem
    steps: tuple[StepRow, ...]
    rail: tuple[RailStop, ...]
    live: str
    can_approve: bool
    can_accept: str | None

    @property
    def working(self) -> bool:
        """Return whether the engine works on the session, or will at once; no decision is due."""
        return self.state.status in (SessionState.READY, SessionState.RUNNING)


class CallView(NamedTuple):
    """An exchange with whoever answers a role; `reply` is None while it runs.

    Attributes:
        dropped: why the answer does not count, "" where it does (`trajectory.state.Exchange`).
    """

    role: Role
    model: str
    prompt: str
    reply: str | None
    answer: ModelAnswered | None
    dropped: str = ""


class StepView(NamedTuple):
    """A step in full.

    `base_source` is what the diff is against, `prompt` what waits at a prompt or reply gate, `calls` what was asked and
    answered, `trial` None until the step was tried.
    """

    step: Step
    source: str
    base_source: str
    prompt: str
    calls: tuple[CallView, ...]
    trial: Trial | None


def session_rows(store: Store) -> list[SessionRow]:
    """Return all sessions that can be read, newest first."""
    found = every_summary(store)
    return [SessionRow.of(session, said) for session, said in found.items() if isinstance(said, SessionSummary)]


def unreadable_sessions(store: Store) -> dict[str, str]:
    """Return the sessions that cannot be read, each with the reason."""
    found = every_summary(store)
    return {session: str(error) for session, error in found.items() if isinstance(error, StoreError)}


def session_view(store: Store, session: str) -> SessionView:
    """Return the whole session; StoreError if it does not exist."""
    state = state_of(store, session)
    best = state.best if state.best and state.passed(state.best) else None
    starred, shown = state.best_step, state.open_step or state.step
    accepts = shown.candidate if shown and shown.passed else best
    return SessionView(
        id=session,
        state=state,
        problem=_problem(store, state.settings.problem),
        steps=tuple(_step_row(step, state, star=step is starred) for step in state.steps),
        rail=rail(state, state.step),
        live=store.live(session),
        can_approve=state.gate is not None and state.gate.gate in (Gate.ANSWER, Gate.PLAN, Gate.DIFF, Gate.PROMOTION),
        can_accept=accepts if state.status is not SessionState.ACCEPTED and not state.settings.imported else None,
    )


def step_view(store: Store, session: str, number: int) -> StepView:
    """Return a step with its texts; StoreError if the session has no such step."""
    state = state_of(store, session)
    step = next((s for s in state.steps if s.number == number), None)
    if step is None:
        raise StoreError(no_step(session, number, len(state.steps)))

    def text(key: str | None) -> str:
        return store.text(key) if key else ""

    tried = step.verdict
    trial = trial_of(store, tried.trial) if tried and tried.trial else None
    if trial and _accepted(state, step):
        trial = replace(trial, marks=tuple(m for m in trial.marks if m is not Mark.NOT_SANITIZED))
    waiting = state.gate.prompt if state.gate and step is state.step else ""
    calls = tuple(
        CallView(
            call.role,
            call.model,
            text(call.prompt),
            text(call.answer.reply) if call.answer else None,
            call.answer,
            call.dropped,
        )
        for call in step.calls
    )
    return StepView(step, text(step.candidate), text(step.parent or step.base), text(waiting), calls, trial)


def _accepted(state: State, step: Step) -> bool:
    """Return whether the step's kernel passed the acceptance test, which is thorough."""
    last = state.acceptance
    return last is not None and last.candidate == step.candidate and last.status is Status.PASSED


def outcome_step(state: State) -> Step | None:
    """Return the step that shows the result of a session that is over: the accepted kernel's, or the best one's if a
    recording ends in a step without a kernel; while an acceptance is tested, that kernel's. Else None."""
    if state.accepting and state.status in WORKING:
        return state.step_of(state.accepting)
    accepted = state.status is SessionState.ACCEPTED
    ended_empty = state.settings.imported and state.step is not None and state.step.candidate is None
    return state.step_of(state.best) if state.best and (accepted or ended_empty) else None


def acceptance_trial(store: Store, state: State) -> Trial | None:
    """Return the trial that accepted, or refused to accept, the candidate."""
    tried: Tried | None = state.acceptance
    return store.record(Trial, tried.trial) if tried and tried.trial else None


def base_trial(store: Store, state: State, step: Step) -> Trial | None:
    """Return the trial of the candidate this step's kernel was made from; None if that was never tried."""
    parent = step.parent or step.base
    made_from = state.step_of(parent) if parent and parent != step.candidate else None
    tried = made_from.verdict if made_from else None
    return trial_of(store, tried.trial) if tried and tried.trial else None


def engine_line(store: Store) -> str:
    """Return what the engine itself does ("preparing the emulator ..."), "" if it is ready. See `store.ENGINE_LINE`."""
    return store.live(ENGINE_LINE)


def autonomy_words() -> Mapping[Autonomy, str]:
    """Return a line for each autonomy mode."""
    return {
        Autonomy.STEP: "waits for you at every enabled gate",
        Autonomy.UNTIL_FAILURE: "runs until the first failure",
        Autonomy.AUTO: "runs to the end",
        Autonomy.PLAN_ONLY: "waits for you at every plan",
    }


@lru_cache(maxsize=64)
def _problem(store: Store, key: str) -> Problem:
    return store.record(Problem, key)


def _step_row(step: Step, state: State, *, star: bool) -> StepRow:
    tried, suite = step.verdict, state.suite_of(step)
    return StepRow(
        step.number,
        step.idea or step.instruction,
        step.author,
        step.candidate,
        step.parent,
        step.status,
        step.outcome,
        tried.message if tried else step.note,
        tried.registers if tried else 0,
        tried.spill_bytes if tried else 0,
        tried.smem_bytes if tried else 0,
        tried.latency_ms if tried else None,
        tried.shapes if tried else (),
        step.at,
        star,
        step.candidate is not None and step.candidate == state.base,
        suite.step if suite else None,
    )
