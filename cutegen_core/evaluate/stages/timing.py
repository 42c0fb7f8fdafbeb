"""BENCHMARK: judge the candidate at the problem's own size and time it in turns with the best kernel and baselines.

The timer does the work (`timing.timer`). This stage adds its result to the trial: verdicts, bounds, marks, and SUSPECT
for a kernel that is faster than the counted work allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.roofline import bounds
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.watch import StageFailure, Watch, raise_if_stopped
from cutegen_core.evaluate.timing.contest import Contest, ContestResult, Entry
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.cuda.program import load_program
from cutegen_core.execute.port import Built
from cutegen_core.judge.reference import Reference
from cutegen_core.records.graph import Graph, InputFacts
from cutegen_core.records.operations import PLACES, traits
from cutegen_core.records.performance import Peaks, Untimed, WorkloadPerformance
from cutegen_core.records.problem import Problem, Signature, TensorRole, Workload, WorkloadRole
from cutegen_core.records.trial import Mark, Status, WorkloadVerdict


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel that is planned for every workload and built for the GPU."""

    planned: PlannedKernel
    built: Built

    def entry(self, workload: Workload) -> Entry:
        """Return the kernel as an entry of a contest on this workload."""
        assert self.built.path is not None
        return Entry(self.built.path.read_bytes(), load_program(self.built, self.planned.plans[workload.name]))


@dataclass
class BenchmarkStage:
    """The BENCHMARK stage of one trial.

    Attributes:
        best: kernel to be timed in turns with the candidate, or why it cannot be; None if there is none or it is the
            candidate.
        existing: the kernel that the problem begins with, likewise.
        peaks: of the device; None disables bounds and the SUSPECT check.
        rough: measure only enough to rank candidates: no baselines, no second process.
        workloads: measurements so far.
        note: why nothing was measured, "" if something was.
    """

    problem: Problem
    reference: Reference
    timer: Timer
    candidate: BuiltKernel
    best: BuiltKernel | Untimed | None
    existing: BuiltKernel | Untimed | None
    peaks: Peaks | None
    l2_bytes: int
    seed: int
    rough: bool
    watch: Watch
    verdicts: list[WorkloadVerdict]
    workloads: list[WorkloadPerformance] = field(default_factory=list)
    marks: set[Mark] = field(default_factory=set)
    note: str = ""

    def run(self) -> StageFailure | None:
        """Measure every benchmark workload in order; the first that is wrong or SUSPECT ends the trial."""
        for workload in self.problem.with_role(WorkloadRole.BENCHMARK):
            raise_if_stopped(self.watch)
            self.watch.say(f"workload {workload.name}")
            measured = self.timer.measure(self._contest(workload), self.watch)
            failure = self._take_result(workload, measured)
            if failure:
                return failure
        return None

    def _contest(self, workload: Workload) -> Contest:
        best, existing = (
            kernel.entry(workload) if isinstance(kernel, BuiltKernel) else None for kernel in (self.best, self.existing)
        )
        own = self.candidate.entry(workload)
        return Contest(workload, self.seed, own, best, existing, baselines=not self.rough, remeasure=not self.rough)

    def _input_facts(self, workload: Workload, graph: Graph, signature: Signature) -> Mapping[str, InputFacts]:
        """Return what is known of the inputs; where rows are looked up, of this workload's indices, too."""
        whole = any(spec.role is TensorRole.INPUT and "int" in spec.dtype for spec in signature.inputs)
        if whole and any(traits(node).flow in PLACES for node in graph.nodes):
            return self.reference.facts_of(workload)
        return self.reference.input_facts()

    def _take_result(self, workload: Workload, measured: ContestResult) -> StageFailure | None:
        self.marks.update(measured.marks)
        self.note = self.note or measured.not_timed
        if measured.failure:
            failure = StageFailure(measured.failure.status, f"workload {workload.name}: {measured.failure.message}")
            self._record(workload, measured, failure)
            return failure
        self._record(workload, measured, None)
        if measured.performance is None:
            return None
        missing = tuple(kernel for kernel in (self.best, self.existing) if isinstance(kernel, Untimed))
        performance = replace(measured.performance, untimed=(*missing, *measured.performance.untimed))
        return self._add_bounds(workload, performance)

    def _add_bounds(self, workload: Workload, performance: WorkloadPerformance) -> StageFailure | None:
        """Add the bounds; return a SUSPECT failure below the compulsory bound, mark CONFIRM far above all baselines."""
        if self.peaks:
            signature, graph = self.reference.signature(workload), self.reference.graph(workload)
            source, allow = self.reference.source(workload), self.problem.allow
            facts = self._input_facts(workload, graph, signature)
            bound = bounds.compute_bounds(source, graph, signature, self.peaks, self.l2_bytes, allow, facts)
            performance = replace(performance, bounds=bound)
        self.workloads.append(performance)
        reason = bounds.reason_to_suspect(performance)
        if reason:
            return StageFailure(Status.SUSPECT, f"workload {workload.name}: {reason}")
        if bounds.reason_to_confirm(performance):
            self.marks.add(Mark.CONFIRM)
        return None

    def _record(self, workload: Workload, measured: ContestResult, failure: StageFailure | None) -> None:
        status, message = (failure.status, failure.message) if failure else (Status.PASSED, "")
        if measured.comparisons or failure:
            self.verdicts.append(
                WorkloadVerdict(
                    workload.name, "timed", self.seed, status, measured.seconds, "", message, measured.comparisons
                )
            )
