"""Decide what a session does next, as a pure function of its state.

| state | move |
|---|---|
| imported, or nothing to do | `Wait` |
| a person asked for a study | `Study` |
| an acceptance is open | `Accept` |
| between steps | `Begin` a step, or `Record`: end by the budget of steps or minutes |
| the budget of steps is used up, and the best kernel was not swept | `LastSweep` |
| an answer waits at its gate | `Record`: open the gate |
| the step has no candidate | `Propose` |
| an alternative has no verdict | `TryAlternative`; when all have one, `Record`: keep the best |
| the candidate waits at a gate | `Record`: open the gate |
| the candidate has no verdict | `Try` |
| the candidate has a verdict | `Record`: open the promotion gate, or close the step |
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from cutegen_core.propose.port import Width
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Gate, Limit, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Event,
    GateOpened,
    Outcome,
    Proposed,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
)
from cutegen_core.records.trial import NO_KERNEL, ExecutorKind
from cutegen_core.session import alternatives, promotion
from cutegen_core.trajectory.state import WORKING, Alternative, Phase, State, Step, WantedStudy, waits_at

_ONE = Width()


@dataclass(frozen=True)
class Wait:
    """Nothing to do until a decision arrives."""


@dataclass(frozen=True)
class Begin:
    """Begin the next step; how many repairs in a row the proposer wants decides what it starts from."""


@dataclass(frozen=True)
class LastSweep:
    """Sweep the parameters of the best kernel if it declares any; otherwise end by the step budget."""

    best: str


@dataclass(frozen=True)
class Record:
    """Append these events; no tool is needed."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Propose:
    """Ask the proposer for the open step's candidate."""

    step: Step


@dataclass(frozen=True)
class TryAlternative:
    """Take an alternative of the open step through the stages."""

    alternative: Alternative


@dataclass(frozen=True)
class Try:
    """Take the open step's candidate through the stages."""

    step: Step


@dataclass(frozen=True)
class Study:
    """Carry out a study that a person asked for."""

    wanted: WantedStudy


@dataclass(frozen=True)
class Accept:
    """Test the candidate once more, with fresh inputs and every check."""

    candidate: str


Move = Wait | Begin | LastSweep | Record | Propose | TryAlternative | Try | Study | Accept


def next_move(state: State) -> Move:
    """Return what the session does next; the same state gives the same move."""
    if state.settings.imported:
        return Wait()
    if state.studies_wanted:
        return Study(state.studies_wanted[0])
    if state.status not in WORKING:
        return Wait()
    if state.accepting:
        return Accept(state.accepting)
    if state.phase is Phase.IDLE:
        return _between_steps(state)
    step = state.open_step
    assert step is not None
    if state.phase is Phase.GENERATING:
        call = step.answered
        if call is not None and waits_at(Gate.ANSWER, state):
            return Record((GateOpened(step.number, Gate.ANSWER, prompt=call.prompt, role=call.role),))
        return _next_candidate(state, step)
    if state.phase is Phase.EVALUATED:
        return Record((_end_step(state, step),))
    gate = next((gate for gate in (Gate.PLAN, Gate.DIFF) if waits_at(gate, state)), None)
    if gate is not None and state.phase is Phase.PROPOSED:
        return Record((GateOpened(step.number, gate, step.candidate),))
    return Try(step)


def begin_step(state: State, max_repairs: int, width: Width = _ONE) -> StepStarted:
    """Return the start of the next step: from the base, or as a repair of the step that just failed.

    Args:
        max_repairs: how many repairs in a row the proposer wants.
        width: how many alternatives it wants, where the step repairs nothing.
    """
    number = len(state.steps) + 1
    failed = list(takewhile(lambda step: step.outcome is Outcome.FAILED, reversed(state.steps)))
    repairs = sum(step.repair for step in failed)
    if not failed or repairs >= max_repairs or state.instruction:
        return StepStarted(number, state.base, state.instruction, width=width.candidates, keep=width.keep)
    return StepStarted(number, _repaired_from(failed[0]), state.instruction, repair=True)


def begin_last_sweep(state: State) -> StepStarted:
    """Return the start of a step that sweeps the best kernel; it does not count against the budget."""
    return StepStarted(len(state.steps) + 1, state.best, study=StudyKind.SWEEP)


def exhausted(state: State) -> StateChanged:
    """Return the end by the budget of minutes or of steps."""
    late = spent_time(state)
    spent = late or f"the budget of {state.max_steps} steps is used up; raise it to go on"
    return StateChanged(SessionState.EXHAUSTED, spent, Limit.MINUTES if late else Limit.STEPS)


def spent_time(state: State) -> str:
    """Return why the session may not work any longer, "" if it may."""
    if state.max_minutes is None or state.worked_s < 60 * state.max_minutes:
        return ""
    worked = f"the session has worked for {state.worked_s / 60:.1f} minutes"
    return f"{worked}, and its budget of {state.max_minutes:g} minutes is used up; raise it to go on"


def is_sweep_due(state: State) -> bool:
    """Return whether the session sweeps its best kernel before it ends.

    A model is told to leave values to the sweep; the playbook's are swept where times decide or a person asked for it.
    A sweep takes time and no tokens: where the minutes are used up, there is none.
    """
    if spent_time(state):
        return False
    who, timed = state.settings.answered_by, state.settings.executor is ExecutorKind.GPU
    wanted = who is AnsweredBy.LLM or (who is AnsweredBy.PLAYBOOK and (timed or state.settings.tune))
    return wanted and state.best is not None and not state.swept(state.best)


def _next_candidate(state: State, step: Step) -> Move:
    """Return what a step without a candidate needs: the next answer, the trial of an alternative, or the choice."""
    if step.alternative <= step.width:
        return Propose(step)
    untried = alternatives.untried(step)
    return TryAlternative(untried) if untried else Record(alternatives.keep(state, step))


def _between_steps(state: State) -> Move:
    number = len(state.steps) + 1
    if state.pending_edit:
        parent = state.pending_parent or state.base
        idea = state.pending_idea or "edited by hand"
        edit = Proposed(number, state.pending_edit, Author.PERSON, idea, parent=parent)
        return Record((StepStarted(number, parent), edit))
    if state.spent_steps < state.max_steps and not spent_time(state):
        return Begin()
    return LastSweep(state.best) if state.best and is_sweep_due(state) else Record((exhausted(state),))


def _end_step(state: State, step: Step) -> Event:
    """Return the gate where a person decides about a promotion, or how the step is closed."""
    person_approved = Gate.PROMOTION in state.gates_passed
    doubt = "" if person_approved else promotion.doubt(step)
    if doubt or waits_at(Gate.PROMOTION, state):
        return GateOpened(step.number, Gate.PROMOTION, step.candidate, note=doubt)
    if step.passed:
        kept = "" if person_approved else promotion.not_faster(state, step)
        return StepClosed(step.number, promotion.outcome(state, step, kept), kept)
    assert step.verdict is not None
    return StepClosed(step.number, Outcome.FAILED, step.verdict.message)


def _repaired_from(failed: Step) -> str | None:
    """Return the failed kernel, or where the reply held none, what it was to be made from."""
    return failed.base if failed.status in NO_KERNEL else failed.candidate
