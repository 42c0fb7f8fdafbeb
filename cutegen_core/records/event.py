"""Events: the append-only trajectory of a session. Its state is a fold of them (`trajectory.transitions`).

Large texts (sources, prompts, replies, trials) are blobs; events carry their keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, Effort, Gate, Limit, StudyKind
from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.trial import ExecutorKind, Mark, Stage, StageResult, Status


class SessionState(StrEnum):
    READY = "READY"
    RUNNING = "RUNNING"
    AWAITING_REVIEW = "AWAITING_REVIEW"
    STOPPED = "STOPPED"
    EXHAUSTED = "EXHAUSTED"
    INTERRUPTED = "INTERRUPTED"
    ACCEPTED = "ACCEPTED"


class Outcome(StrEnum):
    """How a step was closed."""

    PROMOTED = "promoted"
    FAILED = "failed"
    REJECTED = "rejected"
    REDIRECTED = "redirected"
    EDITED = "edited"
    REWOUND = "went back"
    UNANSWERED = "unanswered"
    KEPT = "passed, not promoted"
    ADVANCED = "passed, tip of its branch"
    BRANCHED = "branched"


class Role(StrEnum):
    """The purpose of a model call; each role may have a model of its own."""

    PROPOSER = "proposer"
    DIAGNOSIS = "diagnosis"
    REPAIR = "repair"
    TESTING = "testing"
    PROFILING = "profiling"
    PLANNING = "planning"
    CODING = "coding"


class AnsweredBy(StrEnum):
    """Who gives the answers that a strategy needs."""

    PLAYBOOK = "playbook"
    LLM = "llm"
    PERSON = "person"
    RECORDING = "recording"
    ELSEWHERE = "imported"
    """The session was imported: nothing goes on here."""


@dataclass(frozen=True)
class SessionSettings:
    """Chosen once, when the session is created (autonomy and budget can be changed by decisions).

    Attributes:
        problem: blob key of the problem record.
        strategy: how the kernel is refined; a name of `propose.registry`.
        model: name of the model settings where a language model answers.
        gates: which gates are on in STEP autonomy.
        max_steps: budget of steps; repairs count.
        max_tokens: budget of model tokens, None for no limit.
        recording: the session that is replayed where a recording answers.
        arch: compile target, "sm_90a".
        origin: "here", or where an imported or recorded session came from.
        roles: who answers a role, where that is not `answered_by`.
        allow_regressions: a kernel that is FASTER overall becomes the best although a workload became slower.
        tune: sweep the best kernel's parameters also where the proposer has no more, before it is accepted.
        effort: how much a step may try, and what ends the session before steps and tokens are used up.
    """

    problem: str
    problem_name: str
    answered_by: AnsweredBy
    executor: ExecutorKind
    arch: str
    device_name: str
    autonomy: Autonomy = Autonomy.STEP
    gates: tuple[Gate, ...] = (Gate.DIFF, Gate.PROMOTION)
    max_steps: int = 40
    model: str = ""
    max_tokens: int | None = None
    recording: str = ""
    title: str = ""
    origin: str = "here"
    strategy: str = "cutegen"
    roles: Mapping[Role, AnsweredBy] = field(default_factory=dict)
    allow_regressions: bool = False
    tune: bool = False
    effort: Effort = field(default_factory=Effort)

    def answers(self, role: Role) -> AnsweredBy:
        """Return who answers this role."""
        return self.roles.get(role, self.answered_by)

    @property
    def imported(self) -> bool:
        """Whether the session happened elsewhere: it is read-only here."""
        return self.origin != "here"


@dataclass(frozen=True)
class SessionCreated:
    settings: SessionSettings
    kind: Literal["session_created"] = "session_created"


@dataclass(frozen=True)
class StepStarted:
    """A step begins.

    Attributes:
        base: key of the candidate it goes on from.
        study: what writes its kernel instead of a proposer.
        width: how many alternatives are asked for.
        keep: the one of them to keep, "" for the best.
    """

    step: int
    base: str | None
    instruction: str = ""
    repair: bool = False
    study: StudyKind | None = None
    width: int = 1
    keep: str = ""
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True)
class ModelCalled:
    """Written before a model is called, so a lost answer is known to be lost.

    Attributes:
        prompt: blob key.
        reserved_tokens, reserved_cost: charged against the budgets until the answer says what was used; no cost where
            the model has no prices.
    """

    step: int
    role: Role
    prompt: str
    model: str = ""
    reserved_tokens: int = 0
    reserved_cost: float | None = None
    kind: Literal["model_called"] = "model_called"


@dataclass(frozen=True)
class ModelAnswered:
    """The answer to the last call, by a server, a person or the playbook.

    Attributes:
        reply: blob key of what came, also when it broke off.
        estimated: the server did not count the tokens; they are estimated.
        error: why there is no usable answer, "" when there is one.
        by: who answered, None where an older version did not write it down.
        cached_tokens: those of the prompt that the server had kept.
        cost: in the currency of the model's prices, None where it has none.
    """

    step: int
    role: Role
    prompt: str
    reply: str
    finish: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    seconds: float = 0.0
    error: str = ""
    by: AnsweredBy | None = None
    cached_tokens: int = 0
    cost: float | None = None
    kind: Literal["model_answered"] = "model_answered"


@dataclass(frozen=True)
class Proposed:
    """A candidate exists; `candidate` is also the blob key of its source."""

    step: int
    candidate: str
    author: Author
    idea: str
    plan: str = ""
    parent: str | None = None
    kind: Literal["proposed"] = "proposed"


@dataclass(frozen=True)
class AlternativeProposed:
    """One of several candidates of a step; the one that is kept is `Proposed` when all were tried.

    Attributes:
        alternative: its place, from 1.
        candidate: key of its source, or of a reply without a kernel; "" where there is none, and `note` says why.
        model: name of the model that wrote it.
    """

    step: int
    alternative: int
    candidate: str
    idea: str
    plan: str = ""
    parent: str | None = None
    model: str = ""
    note: str = ""
    kind: Literal["alternative_proposed"] = "alternative_proposed"


@dataclass(frozen=True)
class GateOpened:
    """The session waits here; `prompt` is a blob key at the prompt and reply gates, `role` what it is for."""

    step: int
    gate: Gate
    candidate: str | None = None
    note: str = ""
    prompt: str = ""
    role: Role | None = None
    kind: Literal["gate_opened"] = "gate_opened"


@dataclass(frozen=True)
class Decided:
    """A decision was taken. Here an edit's `source` is the blob key of the text, not the text."""

    decision: Decision
    kind: Literal["decided"] = "decided"


@dataclass(frozen=True)
class TrialStarted:
    step: int
    candidate: str
    acceptance: bool = False
    kind: Literal["trial_started"] = "trial_started"


@dataclass(frozen=True)
class StageStarted:
    step: int
    stage: Stage
    kind: Literal["stage_started"] = "stage_started"


@dataclass(frozen=True)
class StageEnded:
    step: int
    result: StageResult
    kind: Literal["stage_ended"] = "stage_ended"


@dataclass(frozen=True)
class Tried:
    """A trial is finished; `trial` is its blob, "" where an import brought a verdict without the evidence.
    The few numbers the timeline shows are repeated here.

    Attributes:
        latency_ms: over several benchmark workloads the geometric mean.
        against_best: how it compared with the best kernel of that moment, timed in turns; None where it was not.
        shapes: each benchmark workload, where there are several.
        best_untimed: why that best kernel could not be timed beside it.
        estimate_us: of a kernel that passed where nothing is timed.
        bank_conflicts: how many times as often as needed shared memory is served, of the kernel where that is most; 1
            also where it is not known.
    """

    step: int
    candidate: str
    trial: str
    status: Status
    message: str = ""
    registers: int = 0
    spill_bytes: int = 0
    smem_bytes: int = 0
    latency_ms: float | None = None
    acceptance: bool = False
    against_best: Word | None = None
    best_untimed: str = ""
    marks: tuple[Mark, ...] = ()
    shapes: tuple[ShapeTime, ...] = ()
    estimate_us: float | None = None
    bank_conflicts: float = 1.0
    kind: Literal["tried"] = "tried"


@dataclass(frozen=True)
class AlternativeTried:
    """The verdict on one of several candidates of a step."""

    step: int
    alternative: int
    tried: Tried
    kind: Literal["alternative_tried"] = "alternative_tried"


@dataclass(frozen=True)
class Studied:
    """The result of a study of a candidate.

    Attributes:
        result: blob key of the study's record (`session.studies` lists the studies and their records), "" where it
            failed; `message` says why.
        step: the step whose kernel the study chooses, None where the study only looks.
    """

    study: StudyKind
    candidate: str
    result: str
    message: str = ""
    step: int | None = None
    kind: Literal["studied"] = "studied"


class SuiteFault(StrEnum):
    """Name what the problem does not bear in a suite; its message begins with this."""

    FAILS = "the existing kernel fails it"
    CANNOT_RUN = "the reference cannot run it"
    TOO_LARGE = "it asks for too much"


@dataclass(frozen=True)
class SuiteTried:
    """The testing role's suite was checked against the existing kernel and its mutants, or could not be read.

    Attributes:
        problem: blob key of the problem with the suite, "" where the answer holds none.
        result: blob key of the check (`evaluate.mutation.trust.SuiteCheck`), "" where it never ran.
        trusted: from here on this problem judges the session's kernels.
        message: what was found, for a person and for the testing role.
    """

    step: int
    problem: str
    result: str
    trusted: bool
    message: str
    kind: Literal["suite_tried"] = "suite_tried"


@dataclass(frozen=True)
class StepClosed:
    """The step is over; PROMOTED makes its candidate the best and the base of the next step, ADVANCED only the base."""

    step: int
    outcome: Outcome
    note: str = ""
    kind: Literal["step_closed"] = "step_closed"


@dataclass(frozen=True)
class StateChanged:
    """The session stopped, was resumed, was interrupted or accepted, or ran out: `spent` is the budget that did."""

    state: SessionState
    reason: str = ""
    spent: Limit | None = None
    kind: Literal["state_changed"] = "state_changed"


Event = (
    SessionCreated | StepStarted | ModelCalled | ModelAnswered | AlternativeProposed | AlternativeTried | Proposed
    | GateOpened | Decided | TrialStarted | StageStarted | StageEnded | Tried | Studied | SuiteTried | StepClosed
    | StateChanged
)  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """An event with its place in the trajectory; `at` is seconds since the epoch."""

    seq: int
    at: float
    event: Event
