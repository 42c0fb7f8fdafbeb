"""The port `Proposer`: who writes the next candidate.

A proposer is a pure function of a request. When it needs a model it answers `Ask`; the session carries the prompt (to a
server, to a person, to a recording), writes question and answer into the trajectory, and asks again with the exchange
among `request.calls`. So no proposer ever holds state, and a crash never repeats a paid call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutegen_core.machine.device import Device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.event import Role
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import Peaks, Profile
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import Status, Trial


@dataclass(frozen=True)
class Attempt:
    """An earlier step, as the next proposal needs to know it.

    Attributes:
        candidate: its key, "" when the step ended without one.
        status: of its trial, None when it was never tried (rejected or redirected before).
        outcome: what became of it, in words: "promoted", "failed: ...", "rejected: too long".
        rejected: the person turned it down.
    """

    step: int
    idea: str
    candidate: str
    status: Status | None
    outcome: str
    promoted: bool = False
    rejected: bool = False


@dataclass(frozen=True)
class Call:
    """A finished exchange with a model.

    Attributes:
        finish: why the model stopped: "stop", "length", ...
    """

    role: Role
    prompt: str
    reply: str
    finish: str = "stop"


@dataclass(frozen=True)
class ProposalRequest:
    """Everything that a proposer may look at.

    Attributes:
        signature, graph: of the benchmark workload.
        base: the candidate to go on from, None for the seed.
        base_trial: the trial of `base`, when it was tried.
        failure: of the step before, when this step mends it; not the base's where a reply held no kernel.
        instruction: what the person asked for, "" when nothing.
        standing: instructions of the person that hold for every step.
        calls: the model calls of this step so far, in order.
        context_tokens: what the model can take in, 0 when unknown.
        can_profile: there is a profiler to be asked for.
        profile: what it said about `base`, None when it was not asked; `profile_note` says why it could not answer.
        peaks: what the device was measured to do at best.
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
    """A prompt that needs a reply before there can be a proposal; `note` gives its size and what was left out."""

    role: Role
    prompt: str
    note: str = ""


@dataclass(frozen=True)
class WantsStudy:
    """The base must be studied first: a sweep writes the step's kernel, a profile is part of the next request."""

    study: StudyKind
    reason: str


@dataclass(frozen=True)
class Unparsed:
    """A reply without a new kernel file; `reason` says what is missing, or which block does not apply."""

    reply: str
    reason: str
    patch_failed: bool = False


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


Answer = Proposal | Ask | WantsStudy | Unparsed | Declined | Finished


class Proposer(Protocol):
    """The author of the next candidate.

    Attributes:
        max_repairs: how many times in a row it wants to mend a failed candidate before going back to the base.
    """

    name: str
    max_repairs: int

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the answer to a request; the same request gets the same answer."""
