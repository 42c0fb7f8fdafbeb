"""BENCHMARK on a GPU: judge one candidate at the size of one workload and time it in turns with baselines.

1. Take the device's lock; record the wait.
2. The judge draws several buffer sets of fresh values on the GPU and passes their memory to the candidate's runner.
3. The candidate runs on set 0 before any expected value exists. Then the judge computes the reference and compares the
   whole output. A wrong result, a crash or a hang ends the measurement. So does a lack of memory for the reference even
   when no other process holds any; then nothing was judged at this size, and the result says so.
4. Rounds are interleaved, A B C ... C B A (`schedule`, `series`). In a round each timed set is used once, by a freshly
   loaded module; before each sample the outputs are poisoned and the L2 is flushed. After each round of the candidate
   the judge verifies its outputs at random positions that only the judge knows; those of the existing kernel too.
5. Samples taken while heat throttled the clocks are dropped and counted.
6. A fresh process measures the candidate again, in half as many rounds, and one that takes half a second or more by a
   single run; a median more than 2 % apart and beyond the noise is UNSTABLE.

This module needs no torch and no CUDA context: the judge and the runners are separate processes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from cutegen_core.evaluate.roofline.library_calls import library_call
from cutegen_core.evaluate.timing import schedule, statistics
from cutegen_core.evaluate.timing.contenders import (
    RUN_FAULTS,
    BaselineContender,
    Contender,
    Dropped,
    KernelContender,
    RunnerPool,
)
from cutegen_core.evaluate.timing.contest import Contest, ContestResult, Race, RaceResult, Verdict, Watcher
from cutegen_core.evaluate.timing.racing import Racing
from cutegen_core.evaluate.timing.schedule import MOST_SETS
from cutegen_core.evaluate.timing.series import Series
from cutegen_core.execute.cuda import health, lock, nvml
from cutegen_core.execute.cuda.nvml import Monitor
from cutegen_core.judge.gpu.client import CompiledReference, DeviceJudge, Drawing, Sets, Unfit
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import MachineError, StoppedError, UsageError
from cutegen_core.records.performance import (
    CANDIDATE,
    COMPILED,
    EAGER,
    EXISTING,
    SAME_AS_EAGER,
    Conditions,
    Timing,
    Untimed,
    WorkloadPerformance,
)
from cutegen_core.records.trial import Comparison, Mark, Status


class Timer:
    """Measures candidates of one problem on one device; keeps the judge process warm until `close`.

    Args:
        reference: gives signature, graph and source of a workload; its worker is never timed.
        device: a device that is present.

    Raises:
        UsageError: the device is not in this machine.
    """

    def __init__(self, reference: Reference, device: Device) -> None:
        if not device.uuid:
            raise UsageError(f"{device.name} is not in this machine, so nothing can be timed on it.")
        self.reference = reference
        self.device = device
        self.judge = DeviceJudge(reference.problem, device.uuid)
        self.compiled = CompiledReference(reference.problem, device.uuid)
        self.runner_pool = RunnerPool(device.uuid)
        self.compile_failures: dict[str, str] = {}
        self._warming = threading.Lock()
        self._closed = False

    def measure(self, contest: Contest, watch: Watcher) -> ContestResult:
        """Judge and time one candidate on one workload.

        Raises:
            StoppedError: the user stopped it; raised between two rounds at the latest.
            ProblemError: the reference fails on this device.
            MachineError: the device, the driver or one of our processes failed; there is no verdict.
        """
        begun = time.monotonic()
        self._wait_until_warm()
        watch.say(f"waiting for {self.device.name}")
        with (
            lock.hold(self.device.uuid, f"timing {self.reference.problem.name}") as waited,
            contextlib.ExitStack() as stack,
        ):
            measured = _Measurement(self, contest, watch, waited, stack).carry_out()
        self.runner_pool.fill(1 + len(contest.others) + contest.remeasure)
        return replace(measured, seconds=time.monotonic() - begun)

    def race(self, race: Race, watch: Watcher) -> RaceResult:
        """Time kernels side by side on one workload; none is judged. Raises what `measure` raises."""
        self._wait_until_warm()
        with lock.hold(self.device.uuid, f"tuning for {self.reference.problem.name}"):
            return Racing(race, self.device, self.reference, self.judge, self.runner_pool, watch).carry_out()

    def warm_up(self) -> None:
        """Start the judge (torch, CUDA context: 1-4 s) and runners, so that the first measurement need not wait.

        A thread may do this while the timer's owner goes on, and closes it.
        """
        with self._warming:
            if not self._closed:
                self.runner_pool.fill(2)
                self.judge.start()

    def _wait_until_warm(self) -> None:
        """Wait for a warm-up that goes on: two threads must not use the same runners."""
        with self._warming:
            pass

    def close(self) -> None:
        """End all processes and free their memory; a later warm-up does nothing."""
        with self._warming:
            self._closed = True
        self.runner_pool.close()
        self.compiled.close()
        self.judge.close()

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@dataclass
class _Measurement:
    """One measurement in progress."""

    timer: Timer
    contest: Contest
    watch: Watcher
    lock_wait_s: float
    stack: contextlib.ExitStack
    begun: float = field(default_factory=time.monotonic)
    comparisons: tuple[Comparison, ...] = ()
    executions: int = 0

    def carry_out(self) -> ContestResult:
        uuid = self.timer.device.uuid
        candidate = self._kernel(CANDIDATE)  # starts up while the judge draws
        others = {name: self._kernel(name) for name in self.contest.others}
        sets = self._prepare()
        if isinstance(sets, Unfit):
            return self._not_judged(sets)
        gpu = nvml.NvmlGpu(uuid)
        self.stack.callback(gpu.close)
        monitor = self.stack.enter_context(Monitor(gpu))
        try:
            judged = self._check_first(candidate, sets)
            if isinstance(judged, Unfit):
                return self._not_judged(judged)
            candidate = judged
            self.timer.runner_pool.wait_until_idle()
            series = self._series(sets, monitor)
            series.untimed += self._find_library_call()
            self.watch.say("timing in turns")
            series.run([candidate, *self._prepare_others(others, sets, series.untimed)])
            self._check_guards()
            candidate.close()
            us = series.timings()[0].median_us
            again = self._remeasure(sets, monitor, us) if self.contest.remeasure else None
        except Dropped as dropped:
            return self._failed(dropped)
        return self._record(series, sets, gpu, monitor, again)

    # ---- the candidate is right

    def _prepare(self) -> Sets | Unfit:
        self._pause()
        self.watch.say("the judge draws values on the GPU")
        judge, reference = self.timer.judge, self.timer.reference
        return judge.prepare(self._drawing(), reference.signature(self.contest.workload), MOST_SETS)

    def _check_first(self, candidate: KernelContender, sets: Sets) -> KernelContender | Unfit:
        """Return the candidate ready to be timed after judging its first run; raises Dropped if it is wrong."""
        self._pause()
        self.watch.say("first run at this size, then compared whole")
        candidate.load(self.contest.candidate, sets)
        candidate.run_first()
        self.executions += 1
        self._check_guards()
        found = self.timer.judge.compare(self.contest.workload)
        if not isinstance(found, Unfit):
            self._take_verdict(found)
            return candidate
        found = self._compare_alone(candidate)
        if isinstance(found, Unfit):
            return found
        self._take_verdict(found)
        fresh = self._kernel(CANDIDATE)
        fresh.load(self.contest.candidate, sets)
        return fresh

    def _compare_alone(self, candidate: KernelContender) -> tuple[Comparison, ...] | Unfit:
        """Compare again after freeing the memory that other processes hold, the candidate's scratch first.

        A candidate must not avoid the comparison by its own use of memory. The judge owns its outputs, so they survive.
        torch.compile's process ends only if it must: it would compile again in every trial.
        """
        self.watch.say("compared once more, with all memory left to the reference")
        candidate.close()
        self.timer.compiled.trim()
        found = self.timer.judge.compare(self.contest.workload)
        if isinstance(found, Unfit):
            self.timer.compiled.close()
            found = self.timer.judge.compare(self.contest.workload)
        return found

    def _take_verdict(self, found: tuple[Comparison, ...]) -> None:
        self.comparisons = found
        wrong = next((c for c in found if c.wrong), None)
        if wrong:
            raise Dropped(Status.INCORRECT_NUMERICAL, wrong.sentence)

    def _not_judged(self, unfit: Unfit) -> ContestResult:
        reason = f"not judged at its own size: {unfit.reason}"
        return ContestResult(not_timed=reason, marks=(Mark.NOT_TIMED,), executions=self.executions)

    def _check_timed(self, timed: Sequence[int]) -> None:
        slip = self.timer.judge.check(timed)
        if slip:
            text = f"a timed run was wrong although the kernel had been found right: {slip}"
            raise Dropped(Status.INCORRECT_NUMERICAL, text)

    def _check_guards(self) -> None:
        damage = self.timer.judge.check_guards()
        if damage:
            raise Dropped(Status.MEMORY_ERROR, damage)

    # ---- the others

    def _prepare_others(
        self, kernels: Mapping[str, KernelContender], sets: Sets, untimed: list[Untimed]
    ) -> Sequence[Contender]:
        others: list[Contender] = []
        for name, kernel in kernels.items():
            try:
                self._prepare_kernel(kernel, sets)
                others.append(kernel)
            except Dropped as dropped:
                untimed.append(Untimed(name, str(dropped)))
        if self.contest.baselines:
            others.append(BaselineContender(EAGER, self.timer.judge))
            others += self._prepare_compiled(sets, untimed)
        return others

    def _prepare_kernel(self, kernel: KernelContender, sets: Sets) -> None:
        """Load another kernel; the existing one has never run at this size, so damage by it is not the candidate's."""
        kernel.load(self.contest.others[kernel.name], sets)
        if kernel.name == EXISTING:
            kernel.run_first()
            self._check_guards()

    def _prepare_compiled(self, sets: Sets, untimed: list[Untimed]) -> list[Contender]:
        source, failures = self._drawing().source, self.timer.compile_failures
        if source not in failures:
            self.watch.say("torch.compile compiles the reference, once")
            try:
                return [self._adopt_sets(sets)]
            except MachineError as error:
                failures[source] = str(error)
        untimed.append(Untimed(COMPILED, failures[source]))
        return []

    def _adopt_sets(self, sets: Sets) -> Contender:
        compiled = self.timer.compiled
        compiled.adopt(self._drawing(), self.timer.reference.signature(self.contest.workload), sets)
        return BaselineContender(COMPILED, compiled)

    def _find_library_call(self) -> list[Untimed]:
        """Return the library call that eager makes: it is not timed a second time."""
        name = library_call(self.timer.reference.graph(self.contest.workload)) if self.contest.baselines else None
        return [Untimed(name, SAME_AS_EAGER)] if name else []

    # ---- once more, and the record

    def _remeasure(self, sets: Sets, monitor: Monitor, us: float) -> Timing:
        self._pause()
        self.watch.say("once more in a fresh process")
        fresh = self._kernel(CANDIDATE)
        fresh.load(self.contest.candidate, sets)
        series = self._series(sets, monitor)
        if us < schedule.VERY_SLOW_US:
            series.run([fresh], schedule.HALF_ROUNDS)
        else:
            series.run_once(fresh, us)
        self._check_guards()
        fresh.close()
        return series.timings()[0]

    def _record(
        self, series: Series, sets: Sets, gpu: nvml.NvmlGpu, monitor: Monitor, again: Timing | None
    ) -> ContestResult:
        timings = series.timings()
        for untimed in series.untimed:
            if untimed.contender == COMPILED:
                self.timer.compile_failures.setdefault(self._drawing().source, untimed.reason)
        noise = statistics.kernels_noise(timings)
        performance = WorkloadPerformance(
            workload=self.contest.workload.name,
            timings=timings,
            speedups=series.speedups(noise),
            untimed=tuple(series.untimed),
            aa_noise=noise,
            conditions=self._conditions(sets, gpu, monitor),
            remeasured_us=again.median_us if again else None,
        )
        unstable = again is not None and statistics.disagree(timings[0].median_us, again.median_us, noise)
        executions = self.executions + timings[0].n + (again.n if again else 0)
        return ContestResult(performance, None, "", self.comparisons, (Mark.UNSTABLE,) if unstable else (), executions)

    def _conditions(self, sets: Sets, gpu: nvml.NvmlGpu, monitor: Monitor) -> Conditions:
        period = monitor.since(self.begun)
        return Conditions(
            device=gpu.name,
            driver=gpu.driver,
            sm_clock_mhz=period.sm_clock_mhz,
            memory_clock_mhz=period.states[-1].memory_clock_mhz,
            temperature_c=period.temperature_c,
            power_w=period.power_w,
            throttled=period.reasons,
            other_processes=gpu.count_other_processes(),
            sets=len(sets.timed),
            flushed_bytes=sets.flushed_bytes,
            lock_wait_s=self.lock_wait_s,
        )

    def _failed(self, dropped: Dropped) -> ContestResult:
        self.stack.close()  # ends all processes of the candidate
        if dropped.status in RUN_FAULTS:
            health.check(self.timer.device.uuid)
        failure = Verdict(dropped.status, str(dropped))
        return ContestResult(failure=failure, comparisons=self.comparisons, executions=self.executions)

    # ---- small things

    def _kernel(self, name: str) -> KernelContender:
        kernel = KernelContender(name, self.timer.runner_pool.take())
        self.stack.callback(kernel.close)
        return kernel

    def _drawing(self) -> Drawing:
        workload = self.contest.workload
        return Drawing(self.timer.reference.source(workload), workload.values, self.contest.seed)

    def _series(self, sets: Sets, monitor: Monitor) -> Series:
        return Series(self.timer.device.name, sets.timed, monitor, self._pause, self._check_timed)

    def _pause(self) -> None:
        if self.watch.stopped():
            raise StoppedError("stopped by the person")
