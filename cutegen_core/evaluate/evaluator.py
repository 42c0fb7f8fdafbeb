"""Take a candidate through the stages PATCH, COMPILE, TEST and BENCHMARK. The first failing stage ends the trial.

1. PATCH: parse the kernel file, resolve its plan for every workload, check its limits. (`stages.preparing`)
2. COMPILE: NVRTC for the target and the executor's own builds, in parallel; then check the plan's arguments.
3. TEST: run every small workload on the executor; the reference judges the outputs. (`stages.testing`) On the emulator
   it begins while NVRTC is still at work, on a GPU while the machine code is disassembled. (`stages.begun_tests`)
4. BENCHMARK: judge the problem's own size as a whole, then time it against baselines. (`stages.timing`)
5. PROFILE: only on request (`Evaluator.profile`); the trial notes that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.roofline import peaks
from cutegen_core.evaluate.roofline.bounds import graph_bound
from cutegen_core.evaluate.roofline.nominal import nominal_peaks
from cutegen_core.evaluate.roofline.work import graph_work
from cutegen_core.evaluate.stages import preparing
from cutegen_core.evaluate.stages.begun_tests import BegunTests
from cutegen_core.evaluate.stages.existing import ExistingKernel
from cutegen_core.evaluate.stages.machine_checks import CompileRefusal
from cutegen_core.evaluate.stages.other_values import choose_values
from cutegen_core.evaluate.stages.planning import PlannedKernel, plan_candidate
from cutegen_core.evaluate.stages.preparing import CompiledCandidate, CompiledPoint
from cutegen_core.evaluate.stages.profiling import profile_candidate
from cutegen_core.evaluate.stages.tested_builds import TestedBuilds
from cutegen_core.evaluate.stages.testing import CorrectnessStage
from cutegen_core.evaluate.stages.timing import BenchmarkStage, BuiltKernel
from cutegen_core.evaluate.stages.watch import SilentWatch, StageFailure, Watch, raise_if_stopped
from cutegen_core.evaluate.timing.contest import Race, RaceResult
from cutegen_core.evaluate.timing.measured import MeasuredPoints
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.evaluate.tuning.estimate import WorkloadOnDevice, estimate
from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload
from cutegen_core.evaluate.variant import StopOnlyWatch
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.port import Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.machine.turns import Turns
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import MachineError
from cutegen_core.records.graph import Graph
from cutegen_core.records.performance import BEST, EXISTING, KernelEstimate, Peaks, Performance, Profile, Untimed
from cutegen_core.records.problem import Problem, Signature, Values, Workload, WorkloadRole
from cutegen_core.records.trial import (
    Correctness,
    Diagnostic,
    Mark,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)
from cutegen_core.records.wording import counted


@dataclass(frozen=True)
class Evaluator:
    """Everything that a trial of one problem needs. Run one trial at a time: the reference worker is one process.

    Attributes:
        keep: stores a blob and returns its key (cubin and SASS).
        timer: measures speed; None if nothing can be timed.
        run_timeout_s: limit of one run of the candidate on one workload: processor time on the emulator, wall-clock
            time on a GPU.
        existing: the problem's existing kernel, kept as long as the judges of the problem.
        turns: where trials of all sessions wait for theirs.
        measured: the times of earlier sweeps on this device, None to keep none.
    """

    problem: Problem
    reference: Reference
    executor: Executor
    compiler: Compiler
    device: Device
    keep: Callable[[str | bytes], str]
    timer: Timer | None = None
    run_timeout_s: float = 10.0
    existing: ExistingKernel = field(default_factory=ExistingKernel)
    turns: Turns = field(default_factory=lambda: Turns(1))
    measured: MeasuredPoints | None = None

    @property
    def measures_speed(self) -> bool:
        """Whether its times say anything about speed."""
        return self.executor.measures_speed

    @property
    def can_profile(self) -> bool:
        """Whether the executor runs on a GPU, which `profile` needs."""
        return self.executor.measures_speed

    @property
    def can_race(self) -> bool:
        """Whether kernels can be timed side by side here."""
        return self.timer is not None and bool(self.problem.with_role(WorkloadRole.BENCHMARK))

    @property
    def compiles_at_once(self) -> int:
        """How many points of a sweep are compiled at a time."""
        return self.compiler.most_servers

    def signature(self, workload: Workload) -> Signature:
        """Return the tensors and numbers of the problem at this workload."""
        return self.reference.signature(workload)

    def graph(self, workload: Workload) -> Graph:
        """Return the reference's traced graph at this workload."""
        return self.reference.graph(workload)

    def bears(self) -> tuple[Values, ...]:
        """Return the kinds of values on which the reference can judge a kernel."""
        return tuple(dict.fromkeys(one.workload.values for one in choose_values(self.reference)))

    @property
    def peaks(self) -> Peaks | None:
        """Best rates measured on the device, None if they were not measured."""
        return peaks.load(self.device) if self.executor.measures_speed else None

    def plan(self, source: str) -> PlannedKernel | StageFailure:
        """Return the kernel file with its plan for every workload, or why the stage PATCH refuses it."""
        return plan_candidate(source, self.problem, self.reference, self.device, self.executor.kind)

    def compile_point(self, planned: PlannedKernel) -> CompiledPoint | CompileRefusal:
        """Compile a point of a sweep; several threads may do that."""
        return preparing.compile_point(planned, self.compiler, self.executor, self.device)

    def race(self, points: Mapping[str, CompiledPoint], turns: int, *, seed: int, watch: Watch) -> Sequence[RaceResult]:
        """Time compiled points side by side on each benchmark workload; `can_race` must hold."""
        assert self.timer
        kernels = {name: BuiltKernel(point.planned, point.built) for name, point in points.items() if point.built}
        found = []
        for workload in self.problem.with_role(WorkloadRole.BENCHMARK):
            entries = {name: kernel.entry(workload) for name, kernel in kernels.items()}
            found.append(self.timer.race(Race(workload, seed, entries, turns), watch))
        return found

    def profile(self, candidate: Candidate, *, seed: int, watch: Watch) -> Profile:
        """Profile a candidate that passed.

        Raises:
            MachineError: there is no profiler, or it may not read the counters; the message says what to do.
        """
        if not self.can_profile:
            raise MachineError("profiling needs a GPU")
        with self.turns.taken(_waiting(watch)):
            return profile_candidate(
                candidate.source, self.problem, self.reference, self.executor, self.compiler, self.device, seed, watch
            )

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
        """Take the candidate through the stages.

        Args:
            best: a kernel that passed, to be timed in turns with the candidate.
            seed: of the inputs; use a fresh one except for a replay.
            rough: measure only enough to rank candidates: no baselines, no second measurement.
            thorough: also look for memory errors and races if the executor skips that in ordinary trials.

        Raises:
            MachineError: the machine failed; there is no verdict.
            StoppedError: `watch.stopped()` became true.
        """
        watch = watch or SilentWatch()
        with self.turns.taken(_waiting(watch)):
            return self._evaluate(candidate, seed, watch, thorough, best, rough)

    def _evaluate(
        self, candidate: Candidate, seed: int, watch: Watch, thorough: bool, best: Candidate | None, rough: bool
    ) -> Trial:
        instrumented = self.executor.can_check and (thorough or self.executor.checks_every_trial)
        run = _Run(self, candidate, seed, watch, instrumented, best, rough)
        stages = [(Stage.PATCH, run.patch), (Stage.COMPILE, run.compile), (Stage.TEST, run.test)]
        if self.timer:
            stages.append((Stage.BENCHMARK, run.benchmark))
        with closing(run.tests):
            for stage, action in stages:
                failure = run.carry_out(stage, action)
                if failure:
                    return run.trial(failure)
        if not self.timer:
            run.skip(Stage.BENCHMARK, "needs a GPU")
        run.skip(Stage.PROFILE, "on request" if self.can_profile else "needs a GPU")
        return run.trial(None)


def _waiting(watch: Watch) -> Callable[[int], None]:
    """Return what says, whenever it changes, what the trial waits for; StoppedError where the person stops it."""
    said = 0

    def wait(before: int) -> None:
        nonlocal said
        raise_if_stopped(watch)
        if before != said:
            watch.say(f"waits for its turn: {counted(before, 'trial')} of other sessions first")
        said = before

    return wait


@dataclass
class _Run:
    """A trial in progress."""

    evaluator: Evaluator
    candidate: Candidate
    seed: int
    watch: Watch
    instrumented: bool
    best: Candidate | None
    rough: bool
    started_at: float = field(default_factory=time.time)
    stages: list[StageResult] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()
    verdicts: list[WorkloadVerdict] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    not_near: list[str] = field(default_factory=list)
    log: str = ""
    resources: Resources | None = None
    timing: BenchmarkStage | None = None

    planned: PlannedKernel = field(init=False)
    compiled: CompiledCandidate = field(init=False)
    tests: BegunTests = field(init=False)

    def __post_init__(self) -> None:
        self.tests = BegunTests(self.watch)

    def carry_out(self, stage: Stage, action: Callable[[], StageFailure | None]) -> StageFailure | None:
        raise_if_stopped(self.watch)
        self.watch.started(stage)
        begun = time.monotonic()
        failure = action()
        status = StageStatus.FAILED if failure else StageStatus.PASSED
        note = failure.status if failure else self._note(stage)
        ahead = self.tests.seconds if stage is Stage.TEST else 0.0
        self._end(StageResult(stage, status, ahead or time.monotonic() - begun, note))
        return failure

    def skip(self, stage: Stage, note: str) -> None:
        self._end(StageResult(stage, StageStatus.SKIPPED, 0.0, note))

    def trial(self, failure: StageFailure | None) -> Trial:
        """Return the finished record."""
        executor = self.evaluator.executor.kind
        return Trial(
            candidate=self.candidate.key,
            status=failure.status if failure else Status.PASSED,
            stages=tuple(self.stages),
            executor=executor,
            message=failure.message if failure else "",
            diagnostics=(*(failure.diagnostics if failure else ()), *self.diagnostics),
            log=self.log,
            correctness=Correctness(executor, tuple(self.verdicts), tuple(self.sizes)) if self.verdicts else None,
            resources=self.resources,
            performance=Performance(tuple(self.timing.workloads)) if self.timing and self.timing.workloads else None,
            marks=() if failure else self._marks(),
            started_at=self.started_at,
            estimate=None if failure or self.timing else self._estimate(),
        )

    # ---- stages

    def patch(self) -> StageFailure | None:
        evaluator = self.evaluator
        planned = plan_candidate(
            self.candidate.source, evaluator.problem, evaluator.reference, evaluator.device, evaluator.executor.kind
        )
        if isinstance(planned, StageFailure):
            return planned
        self.planned = planned
        return None

    def compile(self) -> StageFailure | None:
        evaluator = self.evaluator
        self.watch.say(f"NVRTC for {evaluator.device.arch}, {evaluator.executor.kind} builds")
        evaluator.reference.get_ready()
        compiled = preparing.compile_candidate(
            self.planned, evaluator.compiler, evaluator.executor, evaluator.device, evaluator.keep,
            self._begin_tests,
        )  # fmt: skip
        self.diagnostics, self.resources = compiled.hints, compiled.resources
        if isinstance(compiled, CompileRefusal):
            self.log = compiled.log
            return compiled.failure
        self.compiled, self.log = compiled, compiled.machine.log
        return None

    def test(self) -> StageFailure | None:
        begun, compiled = self.tests.stage, self.resources
        stage = begun or self._testing(self.compiled, self.watch)
        self.verdicts, self.sizes, self.not_near = stage.verdicts, stage.sizes, stage.not_near
        failure = self.tests.result() if begun else stage.run()
        self.resources = replace(compiled, shared=tuple(stage.shared.values())) if compiled else None
        return failure

    def benchmark(self) -> StageFailure | None:
        evaluator = self.evaluator
        assert evaluator.timer
        self.timing = BenchmarkStage(
            evaluator.problem, evaluator.reference, evaluator.timer, BuiltKernel(self.planned, self.compiled.plain),
            self._best(), self._existing(), evaluator.peaks, evaluator.device.l2_bytes, self.seed, self.rough,
            self.watch, self.verdicts,
        )  # fmt: skip
        return self.timing.run()

    # ---- small things

    def _begin_tests(self, builds: TestedBuilds) -> None:
        """Begin TEST before COMPILE has ended."""
        self.tests.begin(self._testing(builds, self.tests.watch))

    def _testing(self, builds: TestedBuilds, watch: Watch) -> CorrectnessStage:
        evaluator = self.evaluator
        return CorrectnessStage(
            evaluator.problem, evaluator.reference, evaluator.executor, self.planned, builds, self.seed,
            self.instrumented, evaluator.run_timeout_s, watch,
        )  # fmt: skip

    def _best(self) -> BuiltKernel | Untimed | None:
        """Return the kernel to time in turns with the candidate, or why it can no longer be built."""
        evaluator = self.evaluator
        if self.best is None:
            return None
        again = preparing.rebuild_candidate(
            self.best.source, evaluator.problem, evaluator.reference, evaluator.executor, evaluator.compiler,
            evaluator.device,
        )  # fmt: skip
        if isinstance(again, StageFailure):
            return Untimed(BEST, f"cannot be built any more: {again.status}: {again.message}")
        return BuiltKernel(*again)

    def _existing(self) -> BuiltKernel | Untimed | None:
        """Return the kernel that the problem begins with, or why it cannot be timed; None where it is not asked for."""
        source = self.evaluator.problem.existing
        if not source or self.rough or source == self.candidate.source:
            return None
        self.watch.say("testing and building the existing kernel, once")
        return self.evaluator.existing.prepare(lambda: self._test_existing(source))

    def _test_existing(self, source: str) -> BuiltKernel | Untimed:
        """Take the existing kernel through the stages that a candidate takes before it is timed."""
        watch = StopOnlyWatch(self.watch)
        run = _Run(self.evaluator, Candidate(source, Author.IMPORT), self.seed, watch, False, None, True)
        with closing(run.tests):
            for stage, action in ((Stage.PATCH, run.patch), (Stage.COMPILE, run.compile), (Stage.TEST, run.test)):
                failure = run.carry_out(stage, action)
                if failure:
                    return Untimed(EXISTING, f"it does not pass: {failure.status}: {failure.message}")
        return BuiltKernel(run.planned, run.compiled.plain)

    def _estimate(self) -> KernelEstimate:
        """Return what the static model expects of a kernel that is not timed."""
        evaluator, problem = self.evaluator, self.evaluator.problem
        rates = evaluator.peaks or nominal_peaks(evaluator.device)
        assert self.resources
        workloads = []
        for workload in problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[-1:]:
            signature, graph = evaluator.signature(workload), evaluator.graph(workload)
            bound = graph_bound(graph_work(graph, signature), rates, problem.allow) if graph.nodes else None
            launched = LaunchedWorkload(signature, self.planned.target.plans[workload.name])
            workloads.append(WorkloadOnDevice(launched, bound))
        return estimate(workloads, self.resources, evaluator.device, rates)

    def _marks(self) -> tuple[Mark, ...]:
        marks = set(self.timing.marks) if self.timing else {Mark.NOT_TIMED}
        if not self.instrumented:
            marks.add(Mark.NOT_SANITIZED)
        if self._no_float64():
            marks.add(Mark.NO_FLOAT64)
        if self.not_near:
            marks.add(Mark.SMALL_SIZES)
        if any(c.wide for v in self.verdicts for c in v.comparisons):
            marks.add(Mark.WIDE_TOLERANCE)
        return tuple(sorted(marks))

    def _note(self, stage: Stage) -> str:
        if stage is Stage.BENCHMARK and self.timing:
            return self.timing.note
        if stage is Stage.TEST and self._no_float64():
            return f"not held against float64: {self._no_float64()}"
        return "from cache" if stage is Stage.COMPILE and self.resources and self.resources.cached else ""

    def _no_float64(self) -> str:
        """Return why an output was judged without the reference in float64, "" if all were judged with it."""
        return next((c.no_float64 for v in self.verdicts for c in v.comparisons if c.no_float64), "")

    def _end(self, result: StageResult) -> None:
        self.stages.append(result)
        self.watch.ended(result)
