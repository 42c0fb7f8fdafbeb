"""Sessions of the strategy `astra` in which trials are scripted and everything else is real.

Real are the strategy, its prompts, the playbook, the graph, the store, the mutants, and a model behind HTTP. A step
takes milliseconds.

A kernel's text says its verdict as in `tests.session.scripted`, and its time, `// us 12` or `// us "WORKLOAD"=30`.
A suite with a workload that is called `wrong...` is one that the existing kernel fails; mutants of it are caught by a
suite with a workload that is called `strong...`, and always proved different.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen_core.evaluate.mutation.oracle import Proof
from cutegen_core.evaluate.mutation.trust import MutantSample, SuiteJudges
from cutegen_core.evaluate.stages.watch import Watch, raise_if_stopped
from cutegen_core.problems import library
from cutegen_core.propose import registry
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Proposer
from cutegen_core.records.candidate import Candidate
from cutegen_core.records.event import Role
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import BEST, CANDIDATE, Performance, WorkloadPerformance
from cutegen_core.records.problem import Problem, Signature, Values, Workload, WorkloadRole
from cutegen_core.records.trial import Status, Trial
from cutegen_core.trajectory.state import State
from tests.session.clockwork import CONDITIONS, NOISE, speedup, timing
from tests.session.scripted import ScriptedEvaluator, ScriptedSessions
from tests.shared_tools import SHARED

OWN = "// candidate"
"""A line that tells a candidate from a mutant of the existing kernel."""
EXISTING_US = 100.0


@dataclass
class AstraEvaluator(ScriptedEvaluator):
    """Plays the evaluator of a problem with an existing kernel; `timed` gives its kernels times."""

    timed: bool = False

    def signature(self, workload: Workload) -> Signature:
        return _reference(self.problem).signature(workload)

    def graph(self, workload: Workload) -> Graph:
        return _reference(self.problem).graph(workload)

    def bears(self) -> tuple[Values, ...]:
        return (Values.LARGE_MEAN, Values.SPARSE, Values.WIDE)

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
        if watch:
            raise_if_stopped(watch)
        names = [workload.name for workload in self.problem.workloads]
        said = candidate.source
        if candidate.source == self.problem.existing:
            said += "// status INCORRECT_NUMERICAL\n" if any(n.startswith("wrong") for n in names) else ""
        elif OWN not in candidate.source:
            said += "// status INCORRECT_NUMERICAL\n" if any(n.startswith("strong") for n in names) else ""
        told = super().evaluate(
            Candidate(said, candidate.author), seed=seed, watch=None if rough else watch, thorough=thorough
        )
        made = replace(told, candidate=candidate.key)
        if not self.timed or rough or not made.passed:
            return made
        shapes = [workload.name for workload in self.problem.with_role(WorkloadRole.BENCHMARK)]
        workloads = tuple(_performance(name, candidate.source, best) for name in shapes)
        return replace(made, performance=Performance(workloads), marks=())


class AstraSessions(ScriptedSessions):
    """A store and the tools of its sessions, on one serving problem."""

    def __init__(self, folder: Path, problem: str = "silu_and_mul") -> None:
        super().__init__(folder, ())
        self.problem = library.load(problem)
        self.made = AstraEvaluator(self.problem)
        self.sample = MutantSample(3, 3)
        self.survivors = "values one dominant"

    def proposer(self, state: State) -> Proposer:  # type: ignore[override]
        return registry.make_proposer(self.store, state.settings)

    def model(self, state: State, role: Role | None = None) -> Model | None:  # type: ignore[override]
        return registry.make_model(self.store, state.settings, role)

    def evaluator(self, state: State) -> AstraEvaluator:
        return self._of(state.problem)

    @contextmanager
    def suite_judges(self, state: State, problem: str) -> Iterator[SuiteJudges]:
        proof = Proof(self.survivors, Status.INCORRECT_NUMERICAL, "it differs")
        yield SuiteJudges(self._of(problem), lambda source: proof, self.sample)

    def _of(self, key: str) -> AstraEvaluator:
        made = self.made
        assert isinstance(made, AstraEvaluator)
        return replace(made, problem=self.store.record(Problem, key), measures_speed=made.timed)

    def approve_until(self, session: str, step: int) -> State:
        """Approve what waits until the promotion of this step does."""
        state = self.go(session)
        while len(state.steps) < step:
            state = self.approve(session)
        return state

    def start(self, **options: object) -> str:
        return super().start(**{"strategy": "astra", **options})


@contextmanager
def astra(folder: Path, problem: str = "silu_and_mul") -> Iterator[AstraSessions]:
    made = AstraSessions(folder, problem)
    try:
        yield made
    finally:
        made.store.close()


def candidate(problem: Problem, name: str, *lines: str) -> str:
    """Return a kernel file that is the existing one with a line of its own."""
    return problem.existing + "".join(f"{line}\n" for line in (f"{OWN} {name}", *lines))


def _reference(problem: Problem):
    own = library.load(problem.name)
    if own.name not in _REFERENCES:
        _REFERENCES[own.name] = SHARED.reference(own)
    return _REFERENCES[own.name]


_REFERENCES: dict[str, object] = {}


def _performance(workload: str, source: str, best: Candidate | None) -> WorkloadPerformance:
    own = timing(CANDIDATE, _us(source, workload))
    others = [timing(BEST, _us(best.source, workload))] if best else []
    return WorkloadPerformance(
        workload, (own, *others), tuple(speedup(own, other) for other in others), (), NOISE, CONDITIONS
    )


def _us(source: str, workload: str) -> float:
    found = re.findall(r'// us (?:"(.+?)"=)?([\d.]+)', source)
    named = {name: float(us) for name, us in found}
    return named.get(workload, named.get("", EXISTING_US))
