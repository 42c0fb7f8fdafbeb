"""The port `Proposer`: who writes the next candidate.

A proposer is a pure function of a request. When it needs a model it answers `Ask`; the session carries the prompt (to a
server, a person, the playbook, a recording), writes question and answer into the trajectory, and asks again with the
exchange among `request.calls`. So no proposer ever holds state, and a crash never repeats a paid call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cutegen_core.machine.device import Device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.decision import Effort, StudyKind
from cutegen_core.records.event import AnsweredBy, Role, SuiteTried
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import Peaks, Profile, ShapeTime
from cutegen_core.records.problem import Problem, Signature, Values, Workload
from cutegen_core.records.trial import ExecutorKind, Status, Trial


@dataclass(frozen=True)
class Attempt:
    """An earlier step, as the next proposal needs to know it.

    Attributes:
        candidate: its key, "" when the step ended without one.
        status: of its trial, None when it was never tried (rejected or redirected before).
        outcome: what became of it, in words: "promoted", "failed: ...", "rejected: too long".
        rejected: the person turned it down.
        shapes: its times, where there are several timed workloads.
        cost: its time or estimate, and its resources, in words.
        us: its time, or where nothing is timed its estimate; None for one that did not pass.
        tokens, money: what it took of a model; `money` is None where a call has no price.
    """

    step: int
    idea: str
    candidate: str
    status: Status | None
    outcome: str
    promoted: bool = False
    rejected: bool = False
    shapes: tuple[ShapeTime, ...] = ()
    cost: str = ""
    us: float | None = None
    tokens: int = 0
    money: float | None = None


@dataclass(frozen=True)
class Call:
    """A finished exchange with whoever answers a role.

    Attributes:
        finish: why the model stopped: "stop", "length", ...
        dropped: what the person said when they sent the answer back, "" where it counts.
    """

    role: Role
    prompt: str
    reply: str
    finish: str = "stop"
    by: AnsweredBy | None = None
    dropped: str = ""


@dataclass(frozen=True)
class Former:
    """The exchange before, about the request's base: the next question may stand behind it.

    Attributes:
        prompt: as it was sent, with the messages before it (`propose.turns`).
        cached_price: what a token costs that the server kept, of the price of a new one.
        keeps_replies: it keeps its replies, too, as far as is known.
    """

    prompt: str
    reply: str
    cached_price: float
    keeps_replies: bool = True


@dataclass(frozen=True)
class BenchmarkShape:
    """A workload, and its tensors."""

    workload: Workload
    signature: Signature


@dataclass(frozen=True)
class ProposalRequest:
    """Everything that a proposer may look at.

    Attributes:
        signature, graph: of the benchmark workload.
        base: the candidate to go on from, None for the seed.
        base_trial: the trial of `base`, when it was tried.
        failure: of the step before, when this step mends it; not the base's where a reply held no kernel.
        failed_reply: that reply.
        instruction: what the person asked for, "" when nothing.
        standing: instructions of the person that hold for every step.
        calls: the exchanges of this step so far whose answers count, in order.
        sent_back: the last exchange, where a person sent its answer back.
        context_tokens: what the model can take in, 0 when unknown.
        can_profile: there is a profiler to be asked for.
        profile: what it said about `base`, None when it was not asked; `profile_note` says why it could not answer.
        peaks: what the device was measured to do at best.
        shapes: every workload that is timed.
        others: the graph, with its signature, at workloads that are not timed; empty where nobody may need them.
        bears: kinds of values on which the reference can judge a kernel.
        suites: what became of the testing role's suites, in this session.
        executor: what runs the kernels.
        untimed: every workload that is not timed.
        effort: how much a step may try, and what ends the session.
        alternative: which of the step's alternatives is asked for, from 1; `others_try` are the ideas of those it has.
        swept: the parameters of `base` were swept, or a sweep chose it.
        before_sweep: the reply after which `base` was swept, "" where the step before was no sweep or asked nobody.
        former: the exchange that this step's question may stand behind, None where it begins afresh.
    """

    problem: Problem
    signature: Signature
    graph: Graph
    device: Device
    base: Candidate | None
    attempts: tuple[Attempt, ...] = ()
    base_trial: Trial | None = None
    failure: Trial | None = None
    instruction: str = ""
    standing: str = ""
    calls: tuple[Call, ...] = ()
    context_tokens: int = 0
    can_profile: bool = False
    profile: Profile | None = None
    profile_note: str = ""
    peaks: Peaks | None = None
    sent_back: Call | None = None
    shapes: tuple[BenchmarkShape, ...] = ()
    others: tuple[tuple[Graph, Signature], ...] = ()
    bears: tuple[Values, ...] = ()
    suites: tuple[SuiteTried, ...] = ()
    executor: ExecutorKind = ExecutorKind.CPU
    untimed: tuple[BenchmarkShape, ...] = ()
    failed_reply: str = ""
    effort: Effort = field(default_factory=Effort)
    alternative: int = 1
    others_try: tuple[str, ...] = ()
    swept: bool = False
    before_sweep: str = ""
    former: Former | None = None

    @property
    def has_passed(self) -> bool:
        """Whether a kernel of this session passed before."""
        passed = any(attempt.status is Status.PASSED for attempt in self.attempts)
        return passed or (self.base_trial is not None and self.base_trial.passed)


@dataclass(frozen=True)
class Proposal:
    """A kernel file to try.

    Attributes:
        idea: one line for the timeline.
        plan: what will change, the expected effect and the risk, for the plan gate.
    """

    source: str
    author: Author
    idea: str
    plan: str


@dataclass(frozen=True)
class Ask:
    """A prompt that needs a reply before there can be a proposal.

    Attributes:
        note: its size and what was left out.
        offered: the playbook's reply, where the playbook answers this role.
    """

    role: Role
    prompt: str
    note: str = ""
    offered: str = ""


@dataclass(frozen=True)
class TriesSuite:
    """A suite of the testing role that must be checked before the step goes on.

    Attributes:
        problem: with the suite's workloads, None where the answer holds none; `reason` says why.
        last: no other suite is asked for where this one is not trusted.
    """

    problem: Problem | None
    reason: str = ""
    last: bool = False


@dataclass(frozen=True)
class WantsStudy:
    """The base must be studied first: a sweep writes the step's kernel, a profile is part of the next request."""

    study: StudyKind
    reason: str


@dataclass(frozen=True)
class Unparsed:
    """A reply without a new kernel file.

    Attributes:
        reason: what is missing, or which blocks do not apply.
        idea: what it says it tries.
        misfits: its blocks that do not apply, where others do.
    """

    reply: str
    reason: str
    patch_failed: bool = False
    idea: str = ""
    misfits: str = ""


@dataclass(frozen=True)
class Declined:
    """An instruction that cannot be followed; the step stays open for another one."""

    reason: str


@dataclass(frozen=True)
class Finished:
    """The end: the proposer has nothing left to try.

    Attributes:
        choice: key of the candidate to accept where that is not the best, "" for the best.
    """

    reason: str
    choice: str = ""


class Width(NamedTuple):
    """How many alternatives a step has, and which of them to keep: "" for the best."""

    candidates: int = 1
    keep: str = ""


Answer = Proposal | Ask | TriesSuite | WantsStudy | Unparsed | Declined | Finished


class Proposer(Protocol):
    """The author of the next candidate.

    Attributes:
        max_repairs: how many times in a row it wants to mend a failed candidate before going back to the base.
    """

    @property
    def name(self) -> str: ...

    @property
    def max_repairs(self) -> int: ...

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the answer to a request; the same request gets the same answer."""

    def width(self, done: int) -> Width:
        """Return how many alternatives the step after `done` steps with a kernel has."""
