"""One candidate through the stages, in order; the first failing stage ends the trial.

1. PATCH: the text is a kernel file, holds only device code, and its launch plan fits every workload.
2. COMPILE: NVRTC to a cubin (resources, SASS) beside the executor's own builds; arguments against the compiled kernel.
3. TEST: for every workload an instrumented run, then plain runs under two poisons and two thread orders; the candidate
   runs before its expected answer exists.
4. BENCHMARK, PROFILE: need a GPU; without one they are skipped and say so.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from cutegen_core.arguments import check_arguments
from cutegen_core.candidate import Candidate
from cutegen_core.compiler.compilation import Compiler, CompileResult
from cutegen_core.compiler.occupancy import occupancy
from cutegen_core.device import Device
from cutegen_core.errors import KernelFileError, StoppedError
from cutegen_core.executor import Built, Executed, Execution, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel_file import KernelFile, parse
from cutegen_core.launch import LaunchPlan
from cutegen_core.problem import Problem, TensorSpec, Values, Workload, WorkloadRole
from cutegen_core.screening import screen
from cutegen_core.trial import (
    Comparison,
    Correctness,
    Diagnostic,
    Occupancy,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)

NAN_POISON, OTHER_POISON = 0xFF, 0x5A
"""Fill bytes of unwritten outputs: the first makes every float NaN, the second a large finite number."""


class Watch(Protocol):
    """Follows a trial while it runs."""

    def started(self, stage: Stage) -> None: ...

    def ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None:
        """A short line under the running stage."""

    def stopped(self) -> bool:
        """True when the person wants the work abandoned."""


class Quiet:
    """Nobody is watching."""

    def started(self, stage: Stage) -> None: ...

    def ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None: ...

    def stopped(self) -> bool:
        return False


@dataclass(frozen=True)
class _Failure:
    status: Status
    message: str
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class Evaluator:
    """Everything a trial of one problem needs. Not for two trials at once: the reference worker is one process.

    Attributes:
        keep: stores a blob and returns its key (cubin and SASS).
        run_timeout_s: wall-clock limit of one run of the candidate on one workload.
    """

    problem: Problem
    reference: Reference
    executor: Executor
    compiler: Compiler
    device: Device
    keep: Callable[[str | bytes], str]
    run_timeout_s: float = 10.0

    def evaluate(self, candidate: Candidate, *, seed: int, watch: Watch | None = None) -> Trial:
        """Takes the candidate through the stages.

        Args:
            seed: of the inputs; use a fresh one unless replaying.

        Raises:
            MachineError: the machine failed; there is no verdict.
            StoppedError: `watch.stopped()` became true.
        """
        run = _Run(self, candidate, seed, watch or Quiet())
        for stage, action in ((Stage.PATCH, run.patch), (Stage.COMPILE, run.compile), (Stage.TEST, run.test)):
            failure = run.carry_out(stage, action)
            if failure:
                return run.trial(failure)
        for stage in (Stage.BENCHMARK, Stage.PROFILE):
            run.skip(stage, "needs a GPU")
        return run.trial(None)


@dataclass
class _Run:
    """A trial in progress."""

    evaluator: Evaluator
    candidate: Candidate
    seed: int
    watch: Watch
    started_at: float = field(default_factory=time.time)
    stages: list[StageResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    verdicts: list[WorkloadVerdict] = field(default_factory=list)
    plans: dict[str, LaunchPlan] = field(default_factory=dict)
    log: str = ""
    resources: Resources | None = None

    kernel: KernelFile = field(init=False)
    params: Mapping[str, int | float] = field(init=False)
    plain: Built = field(init=False)
    checked: Built = field(init=False)

    def carry_out(self, stage: Stage, action: Callable[[], _Failure | None]) -> _Failure | None:
        self._pause()
        self.watch.started(stage)
        begun = time.monotonic()
        failure = action()
        status = StageStatus.FAILED if failure else StageStatus.PASSED
        self._end(
            StageResult(stage, status, time.monotonic() - begun, failure.status if failure else self._note(stage))
        )
        return failure

    def skip(self, stage: Stage, note: str) -> None:
        self._end(StageResult(stage, StageStatus.SKIPPED, 0.0, note))

    def trial(self, failure: _Failure | None) -> Trial:
        """The finished record."""
        executor = self.evaluator.executor.name
        return Trial(
            candidate=self.candidate.key,
            status=failure.status if failure else Status.PASSED,
            stages=tuple(self.stages),
            executor=executor,
            message=failure.message if failure else "",
            diagnostics=(*(failure.diagnostics if failure else ()), *self.diagnostics),
            log=self.log,
            correctness=Correctness(executor, tuple(self.verdicts)) if self.verdicts else None,
            resources=self.resources,
            marks=() if failure else ("NOT_TIMED",),
            started_at=self.started_at,
        )

    # ---- stages

    def patch(self) -> _Failure | None:
        try:
            self.kernel = parse(self.candidate.source)
            self.params = self.kernel.defaults()
            refused = screen(self.kernel) or self._undeclared_numerics()
            if not refused:
                for workload in self.evaluator.problem.workloads:
                    signature = self.evaluator.reference.signature(workload)
                    self.plans[workload.name] = self.kernel.plan(signature, self.evaluator.device, self.params)
        except KernelFileError as error:
            return _Failure(Status.REJECTED, str(error), (Diagnostic(error.line, "error", str(error), "plan"),))
        if refused:
            return _Failure(Status.REJECTED, refused[0].message, refused)
        return None

    def compile(self) -> _Failure | None:
        executor = self.evaluator.executor
        with ThreadPoolExecutor(3) as pool:
            compiled: Future[CompileResult] = pool.submit(self.evaluator.compiler.compile, self.kernel, self.params)
            checked: Future[Built] = pool.submit(
                executor.build, self.kernel, self.params, compiled.result, checked=True
            )
            plain: Future[Built] = pool.submit(executor.build, self.kernel, self.params, compiled.result, checked=False)
            self.watch.say(f"NVRTC for {self.evaluator.device.arch}, {executor.name} builds")
            result, self.checked, self.plain = compiled.result(), checked.result(), plain.result()
        self.log = result.log
        self.diagnostics += result.diagnostics
        if result.status is not Status.PASSED:
            return _Failure(result.status, result.message)
        self.resources = self._resources(result)
        return self._check_arguments() or self._check_builds()

    def test(self) -> _Failure | None:
        scratch = Path(tempfile.mkdtemp(prefix="trial-", dir=self.evaluator.reference.scratch))
        try:
            for workload in self.evaluator.problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS):
                failure = self._test_workload(workload, scratch)
                if failure:
                    return failure
            return None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _undeclared_numerics(self) -> tuple[Diagnostic, ...]:
        """Relaxations the kernel claims and the problem does not allow."""
        extra = [name for name in self.kernel.numerics.allow if name not in self.evaluator.problem.allow]
        message = f"[numerics] allow: the problem {self.evaluator.problem.name} does not allow {', '.join(extra)}"
        return (Diagnostic(1, "error", message, "plan"),) if extra else ()

    # ---- parts of COMPILE

    def _check_arguments(self) -> _Failure | None:
        assert self.resources is not None
        for name, plan in self.plans.items():
            found = check_arguments(plan, self.resources.kernels)
            errors = tuple(d for d in found if d.severity == "error")
            if errors:
                return _Failure(Status.LAUNCH_ERROR, f"{errors[0].message} (workload {name})", errors)
        self.diagnostics += [d for d in found if d.severity != "error"]
        return None

    def _check_builds(self) -> _Failure | None:
        for built in (self.checked, self.plain):
            if built.status is not Status.PASSED:
                self.log += "\n" + built.log
                status = Status.UNSUPPORTED if built.status is Status.COMPILE_ERROR else built.status
                return _Failure(status, built.message, built.diagnostics)
        return None

    def _resources(self, result: CompileResult) -> Resources:
        keep = self.evaluator.keep
        return Resources(
            arch=self.evaluator.device.arch,
            kernels=result.kernels,
            occupancy=tuple(self._occupancy(result)),
            cubin=keep(result.cubin),
            sass=keep(result.sass),
            compile_seconds=result.seconds,
            cached=result.cached,
        )

    def _occupancy(self, result: CompileResult) -> list[Occupancy]:
        kernels = {k.kernel: k for k in result.kernels}
        return [
            occupancy(launch, kernels[launch.kernel], self.evaluator.device, name)
            for name, plan in self.plans.items()
            for launch in plan.launches
            if launch.kernel in kernels
        ]

    # ---- parts of TEST

    def _test_workload(self, workload: Workload, scratch: Path) -> _Failure | None:
        self._pause()
        self.watch.say(f"workload {workload.name}")
        inputs = self.evaluator.reference.inputs(workload, self.seed)
        try:
            return self._test_on(workload, inputs, scratch)
        finally:
            for path in inputs.values():
                path.unlink(missing_ok=True)

    def _test_on(self, workload: Workload, inputs: Mapping[TensorSpec, Path], scratch: Path) -> _Failure | None:
        instrumented = workload.role is WorkloadRole.EMULATOR and workload.values is Values.GIVEN
        if instrumented:
            ran, _ = self._execute(workload, inputs, scratch / "checked", self.checked, NAN_POISON, "random")
            self._record(workload, "checked", "random", ran)
            if ran.status is not Status.PASSED:
                return _Failure(ran.status, ran.message)
        return self._compare_plain(workload, inputs, scratch)

    def _compare_plain(self, workload: Workload, inputs: Mapping[TensorSpec, Path], scratch: Path) -> _Failure | None:
        ran, first = self._execute(workload, inputs, scratch / "first", self.plain, NAN_POISON, "forward")
        if ran.status is not Status.PASSED:
            self._record(workload, "plain", "forward", ran)
            return _Failure(ran.status, ran.message)
        failure = self._judge(workload, "forward", ran, first)
        if failure:
            return failure
        again, second = self._execute(workload, inputs, scratch / "second", self.plain, OTHER_POISON, "reverse")
        if again.status is not Status.PASSED:
            self._record(workload, "plain", "reverse", again)
            return _Failure(again.status, again.message)
        if all(first[spec].read_bytes() == second[spec].read_bytes() for spec in first):
            self._record(workload, "plain", "reverse", again)
            return None
        if not self.kernel.numerics.deterministic:
            return self._judge(workload, "reverse", again, second)
        message = (
            f"workload {workload.name}: the output changes with the thread order or with what the output buffer held "
            "before; if that is meant, declare `deterministic = false` under [numerics]"
        )
        self._record(workload, "plain", "reverse", replace(again, status=Status.NONDETERMINISTIC, message=message))
        return _Failure(Status.NONDETERMINISTIC, message)

    def _judge(
        self, workload: Workload, order: str, ran: Executed, outputs: Mapping[TensorSpec, Path]
    ) -> _Failure | None:
        poison = NAN_POISON if order == "forward" else OTHER_POISON
        comparisons = self.evaluator.reference.compare(workload, self.seed, outputs, poison=poison)
        wrong = next((c for c in comparisons if c.wrong), None)
        message = _describe(workload, wrong) if wrong else ""
        status = Status.INCORRECT_NUMERICAL if wrong else Status.PASSED
        self._record(workload, "plain", order, replace(ran, status=status, message=message), comparisons)
        return _Failure(status, message) if wrong else None

    def _execute(
        self, workload: Workload, inputs: Mapping[TensorSpec, Path], folder: Path, built: Built, poison: int, order: str
    ) -> tuple[Executed, Mapping[TensorSpec, Path]]:
        folder.mkdir(exist_ok=True)
        signature = self.evaluator.reference.signature(workload)
        outputs = {spec: folder / spec.name for spec in signature.outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        plan, limit_s = self.plans[workload.name], self.evaluator.run_timeout_s
        execution = Execution(built, plan, inputs, outputs, poison, order, self.seed & 0xFFFF, limit_s)
        with self.evaluator.executor.open(built) as execute:
            ran = execute(execution)
        return replace(ran, message=f"workload {workload.name}: {ran.message}" if ran.message else ""), outputs

    def _record(
        self, workload: Workload, mode: str, order: str, ran: Executed, comparisons: tuple[Comparison, ...] = ()
    ) -> None:
        self.verdicts.append(
            WorkloadVerdict(
                workload.name, mode, self.seed, ran.status, ran.seconds, order, ran.message, comparisons, ran.findings
            )
        )

    # ---- small things

    def _pause(self) -> None:
        if self.watch.stopped():
            raise StoppedError("stopped by the person")

    def _note(self, stage: Stage) -> str:
        if stage is Stage.COMPILE and self.resources and self.resources.cached:
            return "from cache"
        return ""

    def _end(self, result: StageResult) -> None:
        self.stages.append(result)
        self.watch.ended(result)


def _describe(workload: Workload, wrong: Comparison) -> str:
    """The verdict in one line: how many, where first, what it looks like."""
    text = f"workload {workload.name}: {wrong.wrong} of {wrong.total} elements of {wrong.output} are wrong"
    if wrong.first:
        first = wrong.first[0]
        text += f"; first at {list(first.index)}: got {first.got:.7g}, want {first.want:.7g}"
    return f"{text}; {wrong.pattern}" if wrong.pattern else text
