"""The port `Proposer`: who writes the next candidate (playbook, a person pasting a reply, a model, a recording)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cutegen_core.candidate import Author, Candidate
from cutegen_core.device import Device
from cutegen_core.graph import Graph
from cutegen_core.problem import Problem, Signature
from cutegen_core.trial import Status, Trial


@dataclass(frozen=True)
class Attempt:
    """One earlier step, as the next proposal needs to know it.

    Attributes:
        candidate: its key, "" when the step ended without one.
        status: of its trial, None when it was never tried (rejected or redirected before).
        outcome: what became of it, in words: "promoted", "failed: ...", "rejected: too long".
    """

    step: int
    idea: str
    candidate: str
    status: Status | None
    outcome: str


@dataclass(frozen=True)
class ProposalRequest:
    """Everything a proposer may look at.

    Attributes:
        signature, graph: of the benchmark workload.
        base: the candidate to go on from, None for the seed.
        failure: the last trial when it failed and nothing better was chosen since.
        instruction: what the person asked for, "" when nothing.
    """

    problem: Problem
    signature: Signature
    graph: Graph
    device: Device
    base: Candidate | None
    attempts: tuple[Attempt, ...] = ()
    failure: Trial | None = None
    instruction: str = ""


@dataclass(frozen=True)
class Proposal:
    """A kernel file to be tried.

    Attributes:
        idea: one line for the timeline.
        plan: what will change, the expected effect and the risk, for the plan gate.
        prompt, reply: the exact texts exchanged, "" where there was no exchange.
    """

    source: str
    author: Author
    idea: str
    plan: str
    prompt: str = ""
    reply: str = ""


@dataclass(frozen=True)
class NeedsReply:
    """The proposer cannot answer by itself: a person carries `prompt` to a model of their own and pastes the reply."""

    prompt: str


@dataclass(frozen=True)
class Unparsed:
    """The reply holds no kernel file; `reason` says what was looked for."""

    reply: str
    reason: str


@dataclass(frozen=True)
class Declined:
    """The instruction could not be followed; the step stays open for another one."""

    reason: str


@dataclass(frozen=True)
class Finished:
    """The proposer has nothing left to try."""

    reason: str


Answer = Proposal | NeedsReply | Unparsed | Declined | Finished


class Proposer(Protocol):
    """Writes the next candidate. Raises MachineError when what it depends on fails."""

    name: str
    paid: bool

    def propose(self, request: ProposalRequest, progress: Callable[[str], None]) -> Answer:
        """Answers one request; `progress` receives text as it arrives."""

    def read(self, reply: str, request: ProposalRequest) -> Answer:
        """Turns a reply a person pasted for a `NeedsReply` into an answer."""
