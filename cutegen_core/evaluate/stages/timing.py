"""BENCHMARK: judge the candidate at the problem's own size and time it in turns with the best kernel and baselines.

The timer does the work (`timing.timer`). This stage adds its result to the trial: verdicts, bounds, marks, and SUSPECT
for a kernel that is faster than the counted work allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.roofline import bounds
from cutegen_core.evaluate.stages.preparing import Planned
from cutegen_core.evaluate.stages.watch import Failure, Watch, pause
from cutegen_core.evaluate.timing.contest import Contest, Entry, Measured
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.cuda.program import program_of
from cutegen_core.execute.port import Built
from cutegen_core.judge.reference import Reference
from cutegen_core.records.performance import Peaks, Untimed, WorkloadPerformance
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Mark, Status, WorkloadVerdict


@dataclass(frozen=True)
class Contender:
    """A kernel that is planned for every workload and built for the GPU."""

    planned: Planned
    built: Built

    def entry(self, workload: Workload) -> Entry:
        """Return the kernel as an entry of a contest on this workload."""
        assert self.built.path is not None
        return Entry(self.built.path.read_bytes(), program_of(self.built, self.planned.plans[workload.name]))


@dataclass
class Timing:
    """The BENCHMARK stage of one trial.

    Attributes:
        best: kernel to be timed in turns with the candidate, or why it cannot be; None if there is none or it is the
            candidate.
        peaks: of the device; None disables bounds and the SUSPECT check.
        rough: measure only enough to rank candidates: no baselines, no second process.
        workloads: measurements so far.
        note: why nothing was measured, "" if something was.
    """

    problem: Problem
    reference: Reference
    timer: Timer
    candidate: Contender
    best: Contender | Untimed | None
    peaks: Peaks | None
    l2_bytes: int
    seed: int
    rough: bool
    watch: Watch
    verdicts: list[WorkloadVerdict]
    workloads: list[WorkloadPerformance] = field(default_factory=list)
    marks: set[Mark] = field(default_factory=set)
    note: str = ""

    def run(self) -> Failure | None:
        """Measure every benchmark workload in order; the first that is wrong or SUSPECT ends the trial."""
        for workload in self.problem.with_role(WorkloadRole.BENCHMARK):
            pause(self.watch)
            self.watch.say(f"workload {workload.name}")
            measured = self.timer.measure(self._contest(workload), self.watch)
            failure = self._taken(workload, measured)
            if failure:
                return failure
        return None

    def _contest(self, workload: Workload) -> Contest:
        best = self.best.entry(workload) if isinstance(self.best, Contender) else None
        own = self.candidate.entry(workload)
        return Contest(workload, self.seed, own, best, baselines=not self.rough, remeasure=not self.rough)

    def _taken(self, workload: Workload, measured: Measured) -> Failure | None:
        self.marks.update(measured.marks)
        self.note = self.note or measured.not_timed
        if measured.failure:
            failure = Failure(measured.failure.status, f"workload {workload.name}: {measured.failure.message}")
            self._record(workload, measured, failure)
            return failure
        self._record(workload, measured, None)
        if measured.performance is None:
            return None
        missing = (self.best,) if isinstance(self.best, Untimed) else ()
        performance = replace(measured.performance, untimed=(*missing, *measured.performance.untimed))
        return self._bounded(workload, performance)

    def _bounded(self, workload: Workload, performance: WorkloadPerformance) -> Failure | None:
        """Add the bounds; return a SUSPECT failure below the compulsory bound, mark CONFIRM far above all baselines."""
        if self.peaks:
            signature, graph = self.reference.signature(workload), self.reference.graph(workload)
            source, allow = self.reference.source(workload), self.problem.allow
            facts = self.reference.input_facts()
            bound = bounds.bounds(source, graph, signature, self.peaks, self.l2_bytes, allow, facts)
            performance = replace(performance, bounds=bound)
        self.workloads.append(performance)
        reason = bounds.suspect(performance)
        if reason:
            return Failure(Status.SUSPECT, f"workload {workload.name}: {reason}")
        if bounds.confirm(performance):
            self.marks.add(Mark.CONFIRM)
        return None

    def _record(self, workload: Workload, measured: Measured, failure: Failure | None) -> None:
        status, message = (failure.status, failure.message) if failure else (Status.PASSED, "")
        if measured.comparisons or failure:
            self.verdicts.append(
                WorkloadVerdict(
                    workload.name, "timed", self.seed, status, measured.seconds, "", message, measured.comparisons
                )
            )
