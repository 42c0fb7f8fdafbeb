"""The state of a session: its steps, and the decision it waits for. `transitions` says how events change it.

IDLE -> GENERATING -> PROPOSED -> TESTING -> EVALUATED -> IDLE        one step
             (gates plan, diff)      (gate promotion)
any phase -> ACCEPTING -> ACCEPTED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Gate, Limit, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    ModelAnswered,
    Outcome,
    Role,
    SessionSettings,
    SessionState,
    Studied,
    SuiteTried,
    Tried,
)
from cutegen_core.records.trial import Stage, StageResult, Status
from cutegen_core.trajectory.grown import Grown

TRANSIENT_STATUSES = (Status.TIMEOUT, Status.COMPILE_LIMIT)
"""Verdicts that a busy machine may have caused: each holds for its trial, not for the kernel."""

WORKING = (SessionState.READY, SessionState.RUNNING)
"""States in which the engine goes on by itself."""


LONGEST_GAP_S = 1800.0
"""What counts as work of a longer time without any event: then the engine was away. No call takes longer by default."""


class Phase(StrEnum):
    """The phase of the open step; IDLE between steps."""

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
        dropped: why its answer does not count: what the person said when they sent it back, "" where it counts.
        alternative: which of the step's alternatives it is for, from 1.
    """

    role: Role
    prompt: str
    model: str
    reserved_tokens: int
    answer: ModelAnswered | None = None
    edited: str = ""
    dropped: str = ""
    reserved_cost: float | None = None
    alternative: int = 1

    @property
    def cost(self) -> float | None:
        """Money that counts against the budget, as `tokens`; None where the model has no prices."""
        return self.answer.cost if self.answer else self.reserved_cost

    @property
    def tokens(self) -> int:
        """Tokens that count against the budget: those used, or those reserved until the use is known."""
        return self.answer.prompt_tokens + self.answer.completion_tokens if self.answer else self.reserved_tokens


@dataclass(frozen=True)
class Alternative:
    """One of several candidates of a step.

    Attributes:
        number: its place, from 1.
        candidate: key of its source, or of a reply without a kernel; "" where there is none, and `note` says why.
        model: name of the model that wrote it.
        tried: what came of its trial, None before it.
    """

    number: int
    candidate: str
    idea: str
    plan: str
    parent: str | None
    model: str
    note: str = ""
    tried: Tried | None = None


class Closing(NamedTuple):
    """How a step was closed, and why."""

    outcome: Outcome
    note: str


class Promotion(NamedTuple):
    """A candidate that became the best: in `step`, by a rewind to `step`, or by acceptance just before `step`."""

    step: int
    candidate: str


class WantedStudy(NamedTuple):
    """A study of a candidate."""

    study: StudyKind
    candidate: str


@dataclass(frozen=True)
class Step:
    """One propose-and-evaluate turn as far as it has come.

    Attributes:
        base: key of the candidate it started from; `parent` is what its own candidate was made of.
        instruction: what the person asked of it.
        repair: it follows a failure.
        study: what writes its kernel, None where a proposer does; such a step does not count against the budget.
        candidate: key of its source, None until one is proposed.
        idea, plan: the proposer's words for it, one line and several.
        calls: of models, in order.
        sweep: blob key of the table of other parameters, where a sweep wrote the kernel, else "".
        memory: the person's note on it for later prompts.
        stages: those of its trial that have ended.
        tried: what came of the trial.
        judged_by: blob key of the problem that judged it, "" before a trial.
        refuted: the acceptance test that its kernel failed, after or before that trial; None where there is none, and
            again when it has passed one since.
        outcome: None while it is open; `note` says why.
        width: how many alternatives it will have; `alternatives` are those that it has so far.
        keep: the one of them to keep, "" for the best.
        closed_as: what these two were before that acceptance test changed them; None where it did not.
        at: when it began, seconds since the epoch.
    """

    number: int
    base: str | None
    instruction: str = ""
    repair: bool = False
    study: StudyKind | None = None
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
    judged_by: str = ""
    refuted: Tried | None = None
    outcome: Outcome | None = None
    note: str = ""
    closed_as: Closing | None = None
    at: float = 0.0
    width: int = 1
    keep: str = ""
    alternatives: tuple[Alternative, ...] = ()

    @property
    def alternative(self) -> int:
        """Which of its alternatives is written next, from 1."""
        return len(self.alternatives) + 1

    def with_key(self, candidate: str) -> Alternative | None:
        """Return its first alternative with this candidate, or None."""
        return next((a for a in self.alternatives if a.candidate == candidate), None)

    @property
    def answered(self) -> Exchange | None:
        """The last call, where it has an answer that counts and was not used for an alternative."""
        call = self.calls[-1] if self.calls else None
        used = call is None or call.alternative < self.alternative
        return call if call and call.answer and not (used or call.answer.error or call.dropped) else None

    @property
    def verdict(self) -> Tried | None:
        """The verdict on its kernel: a failed acceptance test outweighs the step's own trial."""
        return self.refuted or self.tried

    @property
    def status(self) -> Status | None:
        return self.verdict.status if self.verdict else None

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
    """All that the loop and the pages need, folded from the events.

    Attributes:
        seq: of the last event.
        meaning_seq: of the last event that can change what a decision means; a decision must have seen it.
        best: key of the promoted candidate, None before the first.
        promoted: all that were the best and still pass, oldest first; a rewind drops those of later steps than the one
            it goes back to.
        base: key of the candidate the next step starts from (differs from `best` after an edit or a rewind).
        instruction: for the next step.
        running_stage, running_since: the stage in progress and when it began (seconds since the epoch).
        pending_edit: blob key of a person's source that opens the next step; `pending_idea` is what they say it is.
        standing: instructions of the person that hold for every step.
        prompt: the prompt as the person changed it at the prompt gate, for the next call, until it is answered.
        accepting: the candidate whose acceptance is being tested.
        studies_wanted: the studies a person asked for, in order.
        studies: the last result of each study of each candidate.
        branched: the person went on from another kernel than the best; steps move the branch's tip, `base`.
        lost_call: a model was called and its answer never arrived.
        suites: the testing role's suites, in order.
        refutations: by candidate, the acceptance test that it failed, unless it has passed one since.
        worked_s: time in which it worked, not that in which it waited for a person.
        spent: the budget that ended it, None where none did.
        problem: blob key of the problem that judges from now on: with the last trusted suite.
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
    max_cost: float | None = None
    max_minutes: float | None = None
    worked_s: float = 0.0
    spent: Limit | None = None
    standing: str = ""
    steps: Grown[Step] = field(default_factory=Grown)
    gate: OpenGate | None = None
    gates_passed: frozenset[Gate] = frozenset()
    best: str | None = None
    promoted: Grown[Promotion] = field(default_factory=Grown)
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
    studies_wanted: tuple[WantedStudy, ...] = ()
    studies: Mapping[WantedStudy, Studied] = field(default_factory=dict)
    branched: bool = False
    suites: tuple[SuiteTried, ...] = ()
    refutations: Mapping[str, Tried] = field(default_factory=dict)
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def problem(self) -> str:
        return next((suite.problem for suite in reversed(self.suites) if suite.trusted), self.settings.problem)

    @property
    def step(self) -> Step | None:
        """The last step, open or closed."""
        return self.steps[-1] if self.steps else None

    @property
    def open_step(self) -> Step | None:
        return self.step if self.step is not None and self.step.outcome is None else None

    @property
    def spent_steps(self) -> int:
        """Return how many steps count against the budget."""
        return sum(step.study is None for step in self.steps)

    @property
    def works(self) -> bool:
        """Whether the engine has work here without a new decision; never where the session was imported."""
        return not self.settings.imported and (self.status in WORKING or bool(self.studies_wanted))

    @property
    def lost_call(self) -> bool:
        step = self.open_step
        return step is not None and bool(step.calls) and step.calls[-1].answer is None

    @property
    def tokens(self) -> int:
        """Tokens used and reserved so far."""
        return sum(call.tokens for step in self.steps for call in step.calls)

    @property
    def cost(self) -> float | None:
        """Money used and reserved so far, of the calls whose cost is known; None where there are none."""
        known = [call.cost for step in self.steps for call in step.calls if call.cost is not None]
        return sum(known) if known else None

    @property
    def best_step(self) -> Step | None:
        """The last step in which the best candidate was promoted, else the one that a rewind went back to, or at least
        the one that stands for it."""
        if self.best is None:
            return None
        promoted = (s for s in reversed(self.steps) if s.candidate == self.best and s.outcome is Outcome.PROMOTED)
        chosen = self.numbered(self.promoted[-1].step) if self.promoted else None
        gone_back_to = chosen if chosen and chosen.candidate == self.best else None
        return next(promoted, None) or gone_back_to or self.step_of(self.best)

    def suite_of(self, step: Step) -> SuiteTried | None:
        """Return the testing role's suite that judged a step's kernel; None where the problem's own workloads did."""
        return next((suite for suite in self.suites if suite.trusted and suite.problem == step.judged_by), None)

    def numbered(self, number: int | None) -> Step | None:
        """Return the step with this number, or None."""
        if number is not None and 0 < number <= len(self.steps) and self.steps[number - 1].number == number:
            return self.steps[number - 1]
        return next((step for step in self.steps if step.number == number), None)

    def step_of(self, candidate: str) -> Step | None:
        """Return the step that stands for a candidate: the last one that tested it, else the last that carried it."""
        carried = [step for step in reversed(self.steps) if step.candidate == candidate]
        return next((step for step in carried if step.tried), next(iter(carried), None))

    def alternative_of(self, candidate: str) -> Alternative | None:
        """Return an alternative with this candidate, of the last step that has one; or None."""
        found = (step.with_key(candidate) for step in reversed(self.steps) if step.alternatives)
        return next(filter(None, found), None)

    def swept(self, candidate: str | None) -> bool:
        """Return whether a sweep chose this kernel, or tried to improve it."""
        return candidate is not None and any(
            (s.sweep or s.study) and candidate in (s.base, s.candidate) for s in self.steps
        )

    def study(self, study: StudyKind, candidate: str | None) -> Studied | None:
        """Return the last result of this study of the candidate, or None."""
        return self.studies.get(WantedStudy(study, candidate or ""))

    def wants_study(self, study: StudyKind, candidate: str | None) -> bool:
        """Return whether a person waits for this study of the candidate."""
        return WantedStudy(study, candidate or "") in self.studies_wanted

    def refuted(self, candidate: str) -> Tried | None:
        """Return the acceptance test that this candidate failed; None if it failed none, or passed one since."""
        return self.refutations.get(candidate)

    def passed(self, candidate: str) -> bool:
        """Return whether the candidate passed its tests and its last acceptance test, if it had one."""
        return any(s.candidate == candidate and s.passed for s in self.steps)


def waits_at(gate: Gate, state: State) -> bool:
    """Return whether a session in this state waits for a decision at the gate: the review policy."""
    step = state.step
    if gate in (Gate.REPLY, Gate.INSTRUCTION):
        return True
    if gate in state.gates_passed or step is None:
        return False
    if gate is Gate.ANSWER and not _can_be_reviewed(step):
        return False
    if gate in (Gate.PLAN, Gate.DIFF) and step.author in (Author.PERSON, Author.IMPORT):
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


def _can_be_reviewed(step: Step) -> bool:
    """Return whether the step's last call has an answer that counts and that no person gave."""
    call = step.answered
    return call is not None and call.answer is not None and call.answer.by is not AnsweredBy.PERSON
