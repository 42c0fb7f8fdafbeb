"""Fold the events of a session to its state: every transition of the state machine is in `apply`.

1. What a proposer does fills the open step: calls of models, then a candidate.
2. What a trial does moves it through the stages, or the session through its acceptance.
3. Gates stop the session; decisions, and the end of a step, let it go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.records.errors import StoreError
from cutegen_core.records.event import (
    AlternativeProposed,
    AlternativeTried,
    Decided,
    Event,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Recorded,
    SessionCreated,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepClosed,
    StepStarted,
    Studied,
    SuiteTried,
    TrialStarted,
    Tried,
)
from cutegen_core.records.trial import Stage, Status
from cutegen_core.trajectory.grown import Grown
from cutegen_core.trajectory.state import (
    LONGEST_GAP_S,
    TRANSIENT_STATUSES,
    Alternative,
    Closing,
    Exchange,
    OpenGate,
    Phase,
    Promotion,
    State,
    Step,
    WantedStudy,
    waits_at,
)

_Proposing = (
    StepStarted | ModelCalled | ModelAnswered | SuiteTried | AlternativeProposed | AlternativeTried | Proposed
)  # fmt: skip
_Trying = TrialStarted | StageStarted | StageEnded | Tried | Studied
_Steering = GateOpened | Decided | StepClosed | StateChanged
_MEANINGFUL = (
    GateOpened,
    Decided,
    AlternativeProposed,
    AlternativeTried,
    Proposed,
    StepStarted,
    StepClosed,
    StateChanged,
)
_PAUSED = (SessionState.STOPPED, SessionState.INTERRUPTED)
REPLACED = "replaced by the person"
_RIGHT = (Outcome.PROMOTED, Outcome.ADVANCED, Outcome.KEPT)


def fold(events: Iterable[Recorded]) -> State:
    """Return the state after all events; StoreError when the first is not `SessionCreated`."""
    state: State | None = None
    for recorded in events:
        state = apply(state, recorded)
    if state is None:
        raise StoreError("the session has no events")
    return state


def fold_on(state: State, events: Iterable[Recorded]) -> State:
    """Return the state after these further events."""
    for recorded in events:
        state = apply(state, recorded)
    return state


def foresee(state: State, events: Iterable[Event]) -> State:
    """Return the state that these events, appended now, would lead to."""
    now = time.time()
    return fold_on(state, (Recorded(state.seq + place, now, event) for place, event in enumerate(events, 1)))


def apply(state: State | None, recorded: Recorded) -> State:
    """Return the state after one more event."""
    event = recorded.event
    if state is None:
        if not isinstance(event, SessionCreated):
            raise StoreError(f"a session must begin with session_created, not {event.kind}")
        settings = event.settings
        return State(
            settings,
            recorded.seq,
            recorded.seq,
            autonomy=settings.autonomy,
            max_steps=settings.max_steps,
            max_tokens=settings.max_tokens,
            max_cost=settings.effort.max_cost,
            max_minutes=settings.effort.max_minutes,
            created_at=recorded.at,
            updated_at=recorded.at,
        )
    worked = state.worked_s + _worked(state, recorded)
    state = _apply(state, event, recorded)
    meaning = recorded.seq if isinstance(event, _MEANINGFUL) else state.meaning_seq
    return replace(state, seq=recorded.seq, meaning_seq=meaning, updated_at=recorded.at, worked_s=worked)


def _worked(state: State, recorded: Recorded) -> float:
    gap = max(0.0, recorded.at - state.updated_at)
    return min(gap, LONGEST_GAP_S) if state.status is SessionState.RUNNING else 0.0


def _apply(state: State, event: Event, recorded: Recorded) -> State:
    if isinstance(event, _Proposing):
        return _proposing(state, event, recorded)
    if isinstance(event, _Trying):
        return _trying(state, event, recorded)
    if isinstance(event, _Steering):
        return _steering(state, event, recorded)
    raise StoreError(f"unexpected event {event.kind}")


def _proposing(state: State, event: _Proposing, recorded: Recorded) -> State:
    match event:
        case StepStarted():
            step = Step(event.step, event.base, event.instruction, event.repair, event.study, at=recorded.at,
                        width=event.width, keep=event.keep)  # fmt: skip
            return replace(state, status=SessionState.RUNNING, phase=Phase.GENERATING, steps=state.steps.and_one(step),
                           gates_passed=frozenset(), gate=None, instruction="", prompt="")  # fmt: skip
        case ModelCalled():
            exchange = Exchange(event.role, event.prompt, event.model, event.reserved_tokens, edited=state.prompt,
                                reserved_cost=event.reserved_cost,
                                alternative=state.steps[-1].alternative)  # fmt: skip
            state = replace(state, running_stage=Stage.GENERATE, running_since=recorded.at, prompt="",
                            gates_passed=state.gates_passed - {Gate.PROMPT})  # fmt: skip
            return _with_step(state, calls=(*state.steps[-1].calls, exchange))
        case ModelAnswered():
            return _answered(replace(state, running_stage=None), event)
        case SuiteTried():  # its answer was used: there is nothing left to review in it
            return replace(state, suites=(*state.suites, event), gates_passed=state.gates_passed | {Gate.ANSWER},
                           running_stage=None)  # fmt: skip
        case AlternativeProposed():
            new = Alternative(event.alternative, event.candidate, event.idea, event.plan, event.parent, event.model,
                              event.note)  # fmt: skip
            state = replace(state, running_stage=None)
            return _with_step(state, alternatives=(*state.steps[-1].alternatives, new))
        case AlternativeTried():
            known = state.steps[-1].alternatives
            tried = (replace(a, tried=event.tried) if a.number == event.alternative else a for a in known)
            return _with_step(replace(state, running_stage=None), alternatives=tuple(tried))
        case Proposed():
            state = replace(state, phase=Phase.PROPOSED, running_stage=None, pending_edit="", pending_parent=None,
                            gate=None)  # fmt: skip
            return _with_step(state, candidate=event.candidate, parent=event.parent, author=event.author,
                              idea=event.idea, plan=event.plan, tried=None, refuted=None)  # fmt: skip


def _trying(state: State, event: _Trying, recorded: Recorded) -> State:
    match event:
        case TrialStarted():
            phase = Phase.ACCEPTING if event.acceptance else Phase.TESTING
            state = replace(state, status=SessionState.RUNNING, phase=phase)
            return state if event.acceptance else _with_step(state, stages=())
        case StageStarted():
            return replace(state, running_stage=event.stage, running_since=recorded.at)
        case StageEnded():
            state = replace(state, running_stage=None)
            if state.phase is Phase.ACCEPTING:
                return state
            return _with_step(state, stages=(*(state.steps[-1].stages if state.steps else ()), event.result))
        case Tried() if event.acceptance:
            return _acceptance_tried(replace(state, acceptance=event, running_stage=None), event)
        case Tried():
            state = replace(state, phase=Phase.EVALUATED, running_stage=None)
            refuted = state.refuted(event.candidate)
            return _with_step(state, tried=event, judged_by=state.problem, refuted=refuted)
        case Studied():
            return _studied(state, event)


def _studied(state: State, event: Studied) -> State:
    """Keep the result; a study that chooses a step's kernel goes on as that step."""
    done = WantedStudy(event.study, event.candidate)
    wanted = tuple(study for study in state.studies_wanted if study != done)
    state = replace(state, studies={**state.studies, done: event}, studies_wanted=wanted)
    return _with_step(state, sweep=event.result) if event.step is not None else replace(state, running_stage=None)


def _steering(state: State, event: _Steering, recorded: Recorded) -> State:
    match event:
        case GateOpened():
            gate = OpenGate(event.gate, recorded.seq, event.candidate, event.note, event.prompt, event.role)
            return replace(state, status=SessionState.AWAITING_REVIEW, gate=gate, running_stage=None,
                           reason=event.note)  # fmt: skip
        case Decided():
            return _decided(state, event.decision)
        case StepClosed():
            return _closed(state, event)
        case StateChanged():
            return _state_changed(state, event)


def _decided(state: State, decision: Decision) -> State:
    match decision.kind:
        case DecisionKind.STANDING | DecisionKind.MEMORY | DecisionKind.BUDGET | DecisionKind.AUTONOMY:
            return _adjusted(state, decision)
        case DecisionKind.APPROVE:
            gates = state.gates_passed | ({decision.gate} if decision.gate else set())
            prompt = decision.text or state.prompt if decision.gate is Gate.PROMPT else ""
            return replace(state, status=SessionState.RUNNING, gate=None, gates_passed=gates, prompt=prompt)
        case DecisionKind.EDIT:
            return replace(state, status=SessionState.RUNNING, gate=None, pending_edit=decision.source or "",
                           pending_idea=decision.text, pending_parent=decision.candidate)  # fmt: skip
        case DecisionKind.REPLY | DecisionKind.REDIRECT if state.gate and state.gate.gate is Gate.ANSWER:
            return _dropped(replace(state, status=SessionState.RUNNING, gate=None), decision)
        case DecisionKind.REPLY | DecisionKind.REJECT:
            return replace(state, status=SessionState.RUNNING, gate=None)
        case DecisionKind.REDIRECT:
            return replace(state, status=SessionState.RUNNING, gate=None, instruction=decision.text)
        case DecisionKind.REWIND | DecisionKind.BRANCH | DecisionKind.CHOOSE:
            return _goes_on(replace(state, status=SessionState.RUNNING, gate=None), decision)
        case DecisionKind.ACCEPT:
            return replace(state, status=SessionState.RUNNING, gate=None, accepting=decision.candidate, acceptance=None)
        case DecisionKind.STUDY:
            return _study_wanted(state, decision)
        case DecisionKind.STOP:  # a StateChanged follows unless the session has ended; wanted studies end here
            return replace(state, studies_wanted=(), running_stage=None)
        case _:  # RESUME: a StateChanged follows where it changes anything
            return state


def _goes_on(state: State, decision: Decision) -> State:
    """Go on from the step that the person chose: back at it, on a branch of it, or with an alternative of it."""
    step = state.numbered(decision.step)
    candidate = step.candidate if step else None
    if decision.kind is DecisionKind.BRANCH:
        return replace(state, base=candidate, branched=True)
    if decision.kind is DecisionKind.REWIND:
        state = replace(state, base=candidate, branched=False)
        return _back_to(state, step) if step is None or step.passed else state
    chosen = step.with_key(decision.candidate or "") if step else None
    if step is state.open_step or chosen is None:  # it becomes the kernel of its step: `Proposed` follows
        return replace(state, gates_passed=frozenset({Gate.PLAN, Gate.DIFF}))
    idea = f"{chosen.idea} (candidate {chosen.number} of step {decision.step})"
    return replace(state, pending_edit=chosen.candidate, pending_idea=idea, pending_parent=chosen.parent)


def _dropped(state: State, decision: Decision) -> State:
    """Mark the answer under review: a person replaced it, or sent it back with these words."""
    why = decision.text if decision.kind is DecisionKind.REDIRECT else REPLACED
    calls = state.steps[-1].calls
    return _with_step(state, calls=(*calls[:-1], replace(calls[-1], dropped=why)))


def _study_wanted(state: State, decision: Decision) -> State:
    """Record the wanted study; an imported session never carries it out."""
    assert decision.study is not None
    wanted = WantedStudy(decision.study, decision.candidate or "")
    if state.settings.imported or wanted in state.studies_wanted:
        return state
    return replace(state, studies_wanted=(*state.studies_wanted, wanted))


def _adjusted(state: State, decision: Decision) -> State:
    """Apply a decision that fits any state: autonomy, budgets, instructions and notes."""
    match decision.kind:
        case DecisionKind.AUTONOMY:
            assert decision.autonomy is not None
            state = replace(state, autonomy=decision.autonomy)
            if state.gate is None or waits_at(state.gate.gate, state):
                return state
            return replace(state, status=SessionState.RUNNING, gate=None)
        case DecisionKind.BUDGET:
            assert decision.max_steps is not None
            given = {name: getattr(decision, name) for name in ("max_tokens", "max_cost", "max_minutes")}
            raised = {name: value for name, value in given.items() if value is not None}
            return replace(state, max_steps=decision.max_steps, **raised)
        case DecisionKind.STANDING:
            return _told(replace(state, standing=decision.text))
        case _:
            steps = (replace(s, memory=decision.text) if s.number == decision.step else s for s in state.steps)
            return _told(replace(state, steps=Grown(steps)))


def _told(state: State) -> State:
    """Drop a prompt that waits: it was written before this instruction, so it is rendered and shown again."""
    state = replace(state, prompt="", gates_passed=state.gates_passed - {Gate.PROMPT})
    if state.gate is None or state.gate.gate not in (Gate.PROMPT, Gate.REPLY):
        return state
    return replace(state, status=SessionState.RUNNING, gate=None)


def _answered(state: State, event: ModelAnswered) -> State:
    """Record the answer of the call in progress, or of a person who carried the prompt.

    A prompt the person had changed belongs to one question: it is kept only for asking that one again.
    """
    calls = state.steps[-1].calls
    asked_again = bool(event.error) and bool(calls)
    edited = calls[-1].edited if asked_again else ""
    state = replace(state, prompt=edited, gates_passed=state.gates_passed - {Gate.PROMPT, Gate.ANSWER})
    if calls and calls[-1].answer is None:
        return _with_step(state, calls=(*calls[:-1], replace(calls[-1], answer=event)))
    answered = Exchange(event.role, event.prompt, "", 0, event, alternative=state.steps[-1].alternative)
    return _with_step(state, calls=(*calls, answered))


def _state_changed(state: State, event: StateChanged) -> State:
    accepted = event.state is SessionState.ACCEPTED
    running = event.state is SessionState.RUNNING
    if accepted and state.accepting:
        state = _best(state, Promotion(len(state.steps) + 1, state.accepting))
    return replace(
        state,
        status=event.state,
        reason=event.reason,
        spent=event.spent,
        gate=None,
        running_stage=None,
        accepting=state.accepting if running or event.state in _PAUSED else None,
        phase=Phase.IDLE if state.phase is Phase.ACCEPTING and event.state not in _PAUSED else state.phase,
    )


def _closed(state: State, event: StepClosed) -> State:
    step = replace(state.steps[-1], outcome=event.outcome, note=event.note)
    step = _refuted(step, step.refuted) if step.refuted else step
    state = replace(state, steps=state.steps.with_last(step), phase=Phase.IDLE, gate=None, gates_passed=frozenset(),
                    running_stage=None)  # fmt: skip
    if step.outcome is Outcome.PROMOTED and step.candidate:
        promotion = Promotion(step.number, step.candidate)
        return replace(_best(state, promotion), base=step.candidate, branched=False)
    return replace(state, base=step.candidate) if step.outcome is Outcome.ADVANCED else state


def _best(state: State, promotion: Promotion) -> State:
    """Make it the best. An equal promotion before it counts no more; it can only stand among the last ones, since
    their steps never fall."""
    before = state.promoted
    if before and before[-1].step >= promotion.step:
        before = Grown(p for p in before if p != promotion)
    return replace(state, best=promotion.candidate, promoted=before.and_one(promotion))


def _back_to(state: State, target: Step | None) -> State:
    """Make the kernel of that step the best, or none; drop later promotions."""
    if target is None or target.candidate is None:
        return replace(state, best=None, promoted=Grown())
    kept = Grown(p for p in state.promoted if p.step <= target.number)
    return _best(replace(state, promoted=kept), Promotion(target.number, target.candidate))


def _acceptance_tried(state: State, event: Tried) -> State:
    """Apply the verdict of an acceptance test.

    A kernel that fails it has failed, whatever its trial said, until it passes a later one; the best before it is the
    best again.
    """
    if event.status in TRANSIENT_STATUSES:
        return state
    if event.status is Status.PASSED:
        cleared = {key: tried for key, tried in state.refutations.items() if key != event.candidate}
        return _with_verdict(replace(state, refutations=cleared), event.candidate, _confirmed)
    state = replace(state, refutations={**state.refutations, event.candidate: event})
    state = _with_verdict(state, event.candidate, lambda step: _refuted(step, event))
    promoted = Grown(p for p in state.promoted if p.candidate != event.candidate)
    earlier = promoted[-1].candidate if promoted else None
    best = state.best if state.best != event.candidate else earlier
    state = replace(state, promoted=promoted, best=best)
    return replace(state, base=best, branched=False) if state.base == event.candidate else state


def _with_verdict(state: State, candidate: str, judged: Callable[[Step], Step]) -> State:
    """Return the state with `judged` applied to every step that carries the candidate."""
    return replace(state, steps=Grown(judged(s) if s.candidate == candidate else s for s in state.steps))


def _refuted(step: Step, event: Tried) -> Step:
    """Return the step after its kernel failed an acceptance test: a step closed as right becomes failed."""
    if step.outcome not in _RIGHT:
        return replace(step, refuted=event)
    note = f"the acceptance test failed: {event.message}"
    return replace(step, refuted=event, outcome=Outcome.FAILED, note=note, closed_as=Closing(step.outcome, step.note))


def _confirmed(step: Step) -> Step:
    """Return the step after its kernel passed an acceptance test: undo an earlier refutation."""
    was = step.closed_as
    step = replace(step, refuted=None, closed_as=None)
    return replace(step, outcome=was.outcome, note=was.note) if was else step


def _with_step(state: State, **changes: object) -> State:
    if not state.steps:
        return state
    return replace(state, steps=state.steps.with_last(replace(state.steps[-1], **changes)))  # type: ignore[arg-type]
