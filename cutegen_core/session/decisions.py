"""Check a person's decision, and turn it into events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen_core.records.decision import UNBOUND, Decision, DecisionKind, Gate
from cutegen_core.records.errors import StaleDecisionError
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    Event,
    ModelAnswered,
    Outcome,
    Role,
    SessionState,
    StateChanged,
    StepClosed,
)
from cutegen_core.records.trial import NO_KERNEL
from cutegen_core.session import alternatives, studies
from cutegen_core.trajectory.state import State

_CLOSES = {
    DecisionKind.EDIT: Outcome.EDITED,
    DecisionKind.REJECT: Outcome.REJECTED,
    DecisionKind.REDIRECT: Outcome.REDIRECTED,
    DecisionKind.REWIND: Outcome.REWOUND,
    DecisionKind.BRANCH: Outcome.BRANCHED,
    DecisionKind.CHOOSE: Outcome.EDITED,
}


def check(state: State, decision: Decision) -> None:
    """Raise StaleDecisionError, with what to do, if the decision does not fit the state any more."""
    kind = decision.kind
    if state.settings.imported:
        raise StaleDecisionError(f"This session was {state.settings.origin} and is read-only. Start one of your own.")
    if kind is DecisionKind.STUDY and decision.study is not None:
        refusal = studies.refuse(state, decision.study, decision.candidate or "")
        if refusal:
            raise StaleDecisionError(refusal)
    if kind in UNBOUND:
        return
    if decision.seen < state.meaning_seq:
        raise StaleDecisionError("The session has moved on since this was shown. Look again and decide anew.")
    if state.status is SessionState.RUNNING:
        raise StaleDecisionError("The session is running. Stop it or wait for the step to end, then decide.")
    if state.status is SessionState.ACCEPTED and kind not in (DecisionKind.REWIND, DecisionKind.BRANCH):
        raise StaleDecisionError("The session is accepted. Rewind to a step to go on from there.")
    if kind in (DecisionKind.APPROVE, DecisionKind.REPLY):
        _check_gate(state, decision)
    if kind is DecisionKind.ACCEPT:
        _check_accept(state, decision.candidate or "")
    if kind is DecisionKind.CHOOSE:
        _check_choice(state, decision)
    if (
        kind in (DecisionKind.REWIND, DecisionKind.BRANCH)
        and decision.step
        and not any(s.number == decision.step and s.candidate for s in state.steps)
    ):
        raise StaleDecisionError(f"Step {decision.step} has no kernel to go back to.")


def _check_accept(state: State, candidate: str) -> None:
    if state.refuted(candidate):
        raise StaleDecisionError("This kernel failed its acceptance test. Change it, or accept another one.")
    if not state.passed(candidate):
        raise StaleDecisionError("Only a candidate that passed its tests can be accepted.")


def _check_choice(state: State, decision: Decision) -> None:
    step = state.numbered(decision.step)
    chosen = step.with_key(decision.candidate or "") if step else None
    if step is None or chosen is None or chosen.tried is None or chosen.tried.status in NO_KERNEL:
        raise StaleDecisionError(f"Step {decision.step} has no such kernel among its candidates.")
    if step is state.open_step and step.candidate in (None, chosen.candidate):
        raise StaleDecisionError("The step goes on with this kernel already, or has not kept any yet.")


def _check_gate(state: State, decision: Decision) -> None:
    if state.gate is None or (decision.gate and state.gate.gate is not decision.gate):
        raise StaleDecisionError("There is nothing waiting for this answer any more.")
    if state.gate.candidate != decision.candidate:
        raise StaleDecisionError("The approval is for another source than the one shown now. Look again.")


def consequences(state: State, decision: Decision, keep: Callable[[str], str]) -> list[Event]:
    """Return the events of a decision that passed `check`; `keep` stores an edit's source and returns its key."""
    stored = replace(decision, source=keep(decision.source)) if decision.source else decision
    events: list[Event] = [Decided(stored)]
    step = state.open_step
    if decision.kind is DecisionKind.REPLY and step is not None and state.gate is not None:
        role = state.gate.role or Role.PROPOSER
        answer = ModelAnswered(step.number, role, state.gate.prompt, keep(decision.text), by=AnsweredBy.PERSON)
        events.append(answer)
    elif decision.kind is DecisionKind.STOP:
        if state.status in (SessionState.RUNNING, SessionState.READY, SessionState.AWAITING_REVIEW):
            events.append(StateChanged(SessionState.STOPPED, "stopped by the person"))
    elif decision.kind is DecisionKind.RESUME:
        if state.status in (SessionState.STOPPED, SessionState.INTERRUPTED):
            events.append(StateChanged(SessionState.RUNNING, "resumed"))
    elif decision.kind is DecisionKind.BUDGET:
        if state.status is SessionState.EXHAUSTED:
            events.append(StateChanged(SessionState.RUNNING, "budget raised"))
    elif _sends_back(state, decision):
        pass  # the same role answers again, in this step
    elif decision.kind is DecisionKind.CHOOSE and step is not None and step.number == decision.step:
        chosen = step.with_key(decision.candidate or "")
        assert chosen is not None
        events.append(alternatives.propose(step, chosen))
    elif step is not None and decision.kind in _CLOSES:
        events.append(StepClosed(step.number, _CLOSES[decision.kind], decision.text))
    elif step is not None and decision.kind is DecisionKind.ACCEPT:
        promoted = step.passed and step.candidate == decision.candidate
        events.append(StepClosed(step.number, Outcome.PROMOTED if promoted else Outcome.UNANSWERED))
    return events


def _sends_back(state: State, decision: Decision) -> bool:
    """Return whether the decision is about a role's answer only, not about the step."""
    return decision.kind is DecisionKind.REDIRECT and state.gate is not None and state.gate.gate is Gate.ANSWER


def accept_by_policy(candidate: str, seen: int) -> Decision:
    """Return the acceptance that auto mode decides when the proposer is finished."""
    return Decision(DecisionKind.ACCEPT, seen, candidate=candidate, by="policy")
