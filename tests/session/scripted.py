"""Sessions whose trials are scripted: the loop, its decisions and its store are real, and a step takes milliseconds.

A kernel's text says its verdict, `// status COMPILE_ERROR`, and that of its acceptance, `// accepted NONDETERMINISTIC`;
without these it passes. `// estimate 12` is its estimate in µs, `// bound 9` the bound of
that. The proposer proposes a list of texts in order. No compiler, no torch, no process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cutegen_core.evaluate.mutation.trust import SuiteJudges
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import SilentWatch, StageFailure, Watch
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.timing.measured import MeasuredPoints
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import library
from cutegen_core.propose.port import Answer, Finished, Proposal, ProposalRequest, Width
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import KernelEstimate, Peaks, Profile
from cutegen_core.records.problem import Problem, Signature, Values, Workload
from cutegen_core.records.trial import (
    LAWS,
    Correctness,
    Diagnostic,
    ExecutorKind,
    KernelResources,
    Mark,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)
from cutegen_core.session import start
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store


@dataclass
class ScriptedEvaluator:
    """Plays `evaluate.port.CandidateEvaluator`; `tried` lists the sources it was given, in order."""

    problem: Problem
    device: Device = field(default_factory=lambda: choose_device("sm_90a"))
    measures_speed: bool = False
    can_profile: bool = False
    peaks: Peaks | None = None
    can_race: bool = False
    measured: MeasuredPoints | None = None
    compiles_at_once: int = 1
    tried: list[str] = field(default_factory=list)
    thorough: list[str] = field(default_factory=list)

    def signature(self, workload: Workload) -> Signature:
        return Signature((), (), {})

    def graph(self, workload: Workload) -> Graph:
        return Graph(())

    def bears(self) -> tuple[Values, ...]:
        return ()

    def evaluate(
        self,
        candidate: Candidate,
        *,
        seed: int,
        watch: Watch | None = None,
        thorough: bool = False,
        best: Candidate | None = None,
        rough: bool = False,
    ) -> Trial:
        (self.thorough if thorough else self.tried).append(candidate.source)
        status = Status(_said(candidate.source, "accepted" if thorough else "status") or Status.PASSED)
        passed = status is Status.PASSED
        result = StageResult(Stage.TEST, StageStatus.PASSED if passed else StageStatus.FAILED, 0.0, "")
        watch = watch or SilentWatch()
        watch.started(Stage.TEST)
        watch.ended(result)
        evidence = {
            "message": "as scripted",
            "diagnostics": (Diagnostic(1, "error", "as scripted", "nvrtc"),),
            "correctness": Correctness(ExecutorKind.CPU, (WorkloadVerdict("one", "plain", seed, status, 0.0),)),
            "resources": Resources("sm_90a", (KernelResources("k", "k()", 32, 0, 0, 0, 0),), ()),
            "marks": (Mark.NOT_TIMED,),
        }
        lawful = {name: value for name, value in evidence.items() if name not in LAWS[status].must_not}
        guessed = float(_said(candidate.source, "estimate") or 0)
        bound = float(_said(candidate.source, "bound") or 0)
        estimate = KernelEstimate(guessed, guessed, 0.0, bound, bound) if passed and guessed else None
        return Trial(candidate.key, status, (result,), ExecutorKind.CPU, estimate=estimate, **lawful)

    def plan(self, source: str) -> StageFailure:
        return StageFailure(Status.REJECTED, "not scripted", (Diagnostic(1, "error", "not scripted", "plan"),))

    def compile_point(self, planned: PlannedKernel) -> CompiledPoint:
        raise AssertionError("not scripted")

    def race(self, points: Mapping[str, CompiledPoint], turns: int, *, seed: int, watch: Watch) -> list[RaceResult]:
        raise AssertionError("not scripted")

    def profile(self, candidate: Candidate, *, seed: int, watch: Watch) -> Profile:
        raise AssertionError("not scripted")


@dataclass(frozen=True)
class ScriptedProposer:
    """Proposes the texts in order, then is finished."""

    sources: Sequence[str]
    name: str = "scripted"
    max_repairs: int = 1

    def width(self, done: int) -> Width:
        return Width()

    def respond(self, request: ProposalRequest) -> Answer:
        seen = {attempt.candidate for attempt in request.attempts}
        fresh = [source for source in self.sources if content_key(source) not in seen]
        return Proposal(fresh[0], Author.MODEL, fresh[0].splitlines()[0], "") if fresh else Finished("nothing left")


class ScriptedSessions:
    """A store and the tools of its sessions; `go` does what the engine does for one of them."""

    def __init__(self, folder: Path, sources: Sequence[str]) -> None:
        self.store = Store(folder / "store.db")
        self.problem = library.load("relu")
        self.made = ScriptedEvaluator(self.problem)
        self.writes = ScriptedProposer(sources)

    def proposer(self, state: State) -> ScriptedProposer:
        return self.writes

    def model(self, state: State, role: Role | None = None) -> None:
        return None

    def evaluator(self, state: State) -> ScriptedEvaluator:
        return self.made

    @contextmanager
    def suite_judges(self, state: State, problem: str) -> Iterator[SuiteJudges]:
        yield SuiteJudges(self.made, lambda source: None)

    def start(self, **options: object) -> str:
        return start.create(self.store, self.problem, **{"answered_by": AnsweredBy.PLAYBOOK, **options})  # type: ignore[arg-type]

    def go(self, session: str) -> State:
        return Session(self.store, session, self).run()

    def decide(self, session: str, kind: DecisionKind, **fields: object) -> State:
        """Decide as a person who has seen everything; fail where the decision is refused."""
        number = self.store.submit(session, Decision(kind, state_of(self.store, session).seq, **fields))  # type: ignore[arg-type]
        after = self.go(session)
        assert not self.store.ticket(number).refusal, self.store.ticket(number).refusal
        return after

    def approve(self, session: str) -> State:
        gate = state_of(self.store, session).gate
        assert gate is not None
        return self.decide(session, DecisionKind.APPROVE, gate=gate.gate, candidate=gate.candidate)


@contextmanager
def scripted(folder: Path, *sources: str) -> Iterator[ScriptedSessions]:
    made = ScriptedSessions(folder, sources)
    try:
        yield made
    finally:
        made.store.close()


def _said(source: str, word: str) -> str:
    found = re.search(rf"// {word} (\S+)", source)
    return found[1] if found else ""
