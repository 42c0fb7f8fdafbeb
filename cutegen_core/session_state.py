"""The state of a session as a fold of its events. Every transition of the state machine is in `apply`.

IDLE -> GENERATING -> PROPOSED -> TESTING -> EVALUATED -> IDLE        one step
             (gates plan, diff)      (gate promotion)
any phase -> ACCEPTING -> ACCEPTED
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cutegen_core.candidate import Author
from cutegen_core.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.errors import StoreError
from cutegen_core.event import (
    Ablated,
    Decided,
    Event,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Profiled,
    Proposed,
    Recorded,
    Role,
    SessionCreated,
    SessionSettings,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepClosed,
    StepStarted,
    Swept,
    TrialStarted,
    Tried,
)
from cutegen_core.trial import Stage, StageResult, Status


class Phase(StrEnum):
    """What the open step is doing; IDLE between steps."""

    IDLE = "idle"
    GENERATING = "generating"
    PROPOSED = "proposed"
    TESTING = "testing"
    EVALUATED = "evaluated"
    ACCEPTING = "accepting"


@dataclass(frozen=True)
class Exchange:
    """A model call of a step; `answer` is None while it runs, or when it was lost.

    Attributes:
        edited: the prompt where the person had changed it, "" where it was sent as rendered.
    """

    role: Role
    prompt: str
    model: str
    reserved_tokens: int
    answer: ModelAnswered | None = None
    edited: str = ""

    @property
    def tokens(self) -> int:
        """What counts against the budget: what was used, or what is reserved until that is known."""
        return self.answer.prompt_tokens + self.answer.completion_tokens if self.answer else self.reserved_tokens


@dataclass(frozen=True)
class Step:
    """One propose-and-evaluate turn as far as it has come."""

    number: int
    base: str | None
    instruction: str = ""
    repair: bool = False
    candidate: str | None = None
    parent: str | None = None
    author: Author | None = None
    idea: str = ""
    plan: str = ""
    calls: tuple[Exchange, ...] = ()
    sweep: str = ""
    memory: str = ""
    stages: tuple[StageResult, ...] = ()
    tried: Tried | None = None
    outcome: Outcome | None = None
    note: str = ""
    at: float = 0.0

    @property
    def status(self) -> Status | None:
        return self.tried.status if self.tried else None

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED


@dataclass(frozen=True)
class OpenGate:
    """Where the session waits. `seq` is the event that opened it; `prompt` is a blob key."""

    gate: Gate
    seq: int
    candidate: str | None
    note: str = ""
    prompt: str = ""
    role: Role | None = None


@dataclass(frozen=True)
class State:
    """Everything the loop and the pages need to know, and nothing that is not in the events.

    Attributes:
        seq: of the last event.
        meaning_seq: of the last event that can change what a decision means; a decision must have seen it.
        best: key of the promoted candidate, None before the first.
        base: key of the candidate the next step starts from (differs from `best` after an edit or a rewind).
        instruction: for the next step.
        running_stage, running_since: the stage in progress and when it began (seconds since the epoch).
        pending_edit: blob key of a person's source that opens the next step; `pending_idea` is what they say it is.
        standing: instructions of the person that hold for every step.
        prompt: the prompt as the person changed it at the prompt gate, for the next call, until it is answered.
        accepting: the candidate whose acceptance is being tested.
        profile_wanted: the candidate the person wants profiled.
        profiles: what the profiler said, by candidate.
        ablation_wanted: the candidate whose hunks the person wants tried apart.
        ablations: what came of that, by candidate.
        branched: the person went on from another kernel than the best; steps move the branch's tip, `base`.
        lost_call: a model was called and its answer never arrived.
    """

    settings: SessionSettings
    seq: int = 0
    meaning_seq: int = 0
    status: SessionState = SessionState.READY
    reason: str = ""
    phase: Phase = Phase.IDLE
    autonomy: Autonomy = Autonomy.STEP
    max_steps: int = 0
    max_tokens: int | None = None
    standing: str = ""
    steps: tuple[Step, ...] = ()
    gate: OpenGate | None = None
    gates_passed: frozenset[Gate] = frozenset()
    best: str | None = None
    base: str | None = None
    instruction: str = ""
    running_stage: Stage | None = None
    running_since: float = 0.0
    pending_edit: str = ""
    pending_idea: str = ""
    pending_parent: str | None = None
    prompt: str = ""
    accepting: str | None = None
    acceptance: Tried | None = None
    profile_wanted: str | None = None
    profiles: Mapping[str, Profiled] = field(default_factory=dict)
    ablation_wanted: str | None = None
    ablations: Mapping[str, Ablated] = field(default_factory=dict)
    branched: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def step(self) -> Step | None:
        """The last step, open or closed."""
        return self.steps[-1] if self.steps else None

    @property
    def open_step(self) -> Step | None:
        return self.step if self.step is not None and self.step.outcome is None else None

    @property
    def lost_call(self) -> bool:
        step = self.open_step
        return step is not None and bool(step.calls) and step.calls[-1].answer is None

    @property
    def tokens(self) -> int:
        """Tokens used and reserved so far."""
        return sum(call.tokens for step in self.steps for call in step.calls)

    def step_of(self, candidate: str) -> Step | None:
        """The last step that carried this candidate."""
        return next((s for s in reversed(self.steps) if s.candidate == candidate), None)

    def passed(self, candidate: str) -> bool:
        return any(s.candidate == candidate and s.passed for s in self.steps)


def fold(events: Iterable[Recorded]) -> State:
    """The state after all events; StoreError when the first is not `SessionCreated`."""
    state: State | None = None
    for recorded in events:
        state = apply(state, recorded)
    if state is None:
        raise StoreError("the session has no events")
    return state


_PAUSED = (SessionState.STOPPED, SessionState.INTERRUPTED)


def waits_at(gate: Gate, state: State) -> bool:
    """The review policy: whether a session in this state waits for a decision at the gate."""
    step = state.step
    if gate in (Gate.REPLY, Gate.INSTRUCTION):
        return True
    if gate in state.gates_passed or step is None:
        return False
    if gate in (Gate.PLAN, Gate.DIFF) and step.author is Author.PERSON:
        return False
    match state.autonomy:
        case Autonomy.STEP:
            return gate in state.settings.gates
        case Autonomy.UNTIL_FAILURE:
            return gate is Gate.PROMOTION and not step.passed
        case Autonomy.PLAN_ONLY:
            return gate is Gate.PLAN
        case Autonomy.AUTO:
            return False


_MEANINGFUL = (GateOpened, Decided, Proposed, StepStarted, StepClosed, StateChanged)


def apply(state: State | None, recorded: Recorded) -> State:
    """The state after one more event."""
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
            created_at=recorded.at,
            updated_at=recorded.at,
        )
    state = _apply(state, event, recorded)
    meaning = recorded.seq if isinstance(event, _MEANINGFUL) else state.meaning_seq
    return replace(state, seq=recorded.seq, meaning_seq=meaning, updated_at=recorded.at)


def _apply(state: State, event: Event, recorded: Recorded) -> State:  # noqa: C901 - the transition table
    match event:
        case StepStarted():
            step = Step(event.step, event.base, event.instruction, event.repair, at=recorded.at)
            return replace(state, status=SessionState.RUNNING, phase=Phase.GENERATING, steps=(*state.steps, step),
                           gates_passed=frozenset(), gate=None, instruction="", prompt="")  # fmt: skip
        case ModelCalled():
            exchange = Exchange(event.role, event.prompt, event.model, event.reserved_tokens, edited=state.prompt)
            state = replace(state, running_stage=Stage.GENERATE, running_since=recorded.at, prompt="",
                            gates_passed=state.gates_passed - {Gate.PROMPT})  # fmt: skip
            return _with_step(state, calls=(*state.steps[-1].calls, exchange))
        case ModelAnswered():
            return _answered(replace(state, running_stage=None), event)
        case Swept():
            return _with_step(state, sweep=event.rows)
        case Proposed():
            state = replace(state, phase=Phase.PROPOSED, running_stage=None, pending_edit="", pending_parent=None,
                            gate=None)  # fmt: skip
            return _with_step(state, candidate=event.candidate, parent=event.parent, author=event.author,
                              idea=event.idea, plan=event.plan)  # fmt: skip
        case GateOpened():
            gate = OpenGate(event.gate, recorded.seq, event.candidate, event.note, event.prompt, event.role)
            return replace(state, status=SessionState.AWAITING_REVIEW, gate=gate, running_stage=None,
                           reason=event.note)  # fmt: skip
        case Decided():
            return _decided(state, event.decision)
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
            return replace(state, acceptance=event, running_stage=None)
        case Tried():
            return _with_step(replace(state, phase=Phase.EVALUATED, running_stage=None), tried=event)
        case Profiled():
            profiles = {**state.profiles, event.candidate: event}
            return replace(state, profile_wanted=None, profiles=profiles, running_stage=None)
        case Ablated():
            ablations = {**state.ablations, event.candidate: event}
            return replace(state, ablation_wanted=None, ablations=ablations, running_stage=None)
        case StepClosed():
            return _closed(state, event)
        case StateChanged():
            return _state_changed(state, event)
        case _:
            raise StoreError(f"unexpected event {event.kind}")


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
        case DecisionKind.REPLY | DecisionKind.REJECT:
            return replace(state, status=SessionState.RUNNING, gate=None)
        case DecisionKind.REDIRECT:
            return replace(state, status=SessionState.RUNNING, gate=None, instruction=decision.text)
        case DecisionKind.REWIND:
            target = next((s for s in state.steps if s.number == decision.step), None)
            candidate = target.candidate if target else None
            best = candidate if target is None or target.passed else state.best
            return replace(state, status=SessionState.RUNNING, gate=None, base=candidate, best=best,
                           branched=False)  # fmt: skip
        case DecisionKind.ACCEPT:
            return replace(state, status=SessionState.RUNNING, gate=None, accepting=decision.candidate, acceptance=None)
        case DecisionKind.PROFILE:
            return replace(state, profile_wanted=decision.candidate)
        case DecisionKind.ABLATE:
            return replace(state, ablation_wanted=decision.candidate)
        case DecisionKind.BRANCH:
            tip = next((s.candidate for s in state.steps if s.number == decision.step), None)
            return replace(state, status=SessionState.RUNNING, gate=None, base=tip, branched=True)
        case _:  # STOP and RESUME: a StateChanged follows where they change anything
            return state


def _adjusted(state: State, decision: Decision) -> State:
    """Decisions that fit any state: how far to go, how much to spend, what to tell the proposer."""
    match decision.kind:
        case DecisionKind.AUTONOMY:
            assert decision.autonomy is not None
            state = replace(state, autonomy=decision.autonomy)
            if state.gate is None or waits_at(state.gate.gate, state):
                return state
            return replace(state, status=SessionState.RUNNING, gate=None)
        case DecisionKind.BUDGET:
            assert decision.max_steps is not None
            tokens = decision.max_tokens if decision.max_tokens is not None else state.max_tokens
            return replace(state, max_steps=decision.max_steps, max_tokens=tokens)
        case DecisionKind.STANDING:
            return _told(replace(state, standing=decision.text))
        case _:
            steps = (replace(s, memory=decision.text) if s.number == decision.step else s for s in state.steps)
            return _told(replace(state, steps=tuple(steps)))


def _told(state: State) -> State:
    """A prompt that waits was written before the person said this: it is written, and shown, again."""
    state = replace(state, prompt="", gates_passed=state.gates_passed - {Gate.PROMPT})
    if state.gate is None or state.gate.gate not in (Gate.PROMPT, Gate.REPLY):
        return state
    return replace(state, status=SessionState.RUNNING, gate=None)


def _answered(state: State, event: ModelAnswered) -> State:
    """The answer of the call in progress, or of a person who carried the prompt.

    A prompt the person had changed belongs to one question: it is kept only for asking that one again.
    """
    calls = state.steps[-1].calls
    asked_again = bool(event.error) and bool(calls)
    edited = calls[-1].edited if asked_again else ""
    state = replace(state, prompt=edited, gates_passed=state.gates_passed - {Gate.PROMPT})
    if calls and calls[-1].answer is None:
        return _with_step(state, calls=(*calls[:-1], replace(calls[-1], answer=event)))
    return _with_step(state, calls=(*calls, Exchange(event.role, event.prompt, "", 0, event)))


def _state_changed(state: State, event: StateChanged) -> State:
    accepted = event.state is SessionState.ACCEPTED
    running = event.state is SessionState.RUNNING
    return replace(
        state,
        status=event.state,
        reason=event.reason,
        gate=None,
        running_stage=None,
        best=state.accepting if accepted else state.best,
        accepting=state.accepting if running or event.state in _PAUSED else None,
        phase=Phase.IDLE if state.phase is Phase.ACCEPTING and event.state not in _PAUSED else state.phase,
    )


def _closed(state: State, event: StepClosed) -> State:
    step = state.steps[-1]
    state = _with_step(state, outcome=event.outcome, note=event.note)
    state = replace(state, phase=Phase.IDLE, gate=None, gates_passed=frozenset(), running_stage=None)
    if event.outcome is Outcome.PROMOTED:
        return replace(state, best=step.candidate, base=step.candidate, branched=False)
    return replace(state, base=step.candidate) if event.outcome is Outcome.ADVANCED else state


def _with_step(state: State, **changes: object) -> State:
    if not state.steps:
        return state
    return replace(state, steps=(*state.steps[:-1], replace(state.steps[-1], **changes)))  # type: ignore[arg-type]
