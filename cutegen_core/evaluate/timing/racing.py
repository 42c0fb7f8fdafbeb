"""Carry out a race: time many kernels side by side, so that a sweep can rank its points. Nothing is judged here.

1. The judge draws buffer sets; each kernel has a runner process of its own that maps them.
2. Each kernel runs twice before it is timed; one that crashes, hangs or writes out of bounds is lost, the others go on.
3. The turns are interleaved as in a contest (`series`).
A wrong kernel may win. So the best of a sweep take every stage of a trial afterwards, and a contest with the defaults.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from cutegen_core.evaluate.timing.contenders import RUN_FAULTS, Dropped, KernelContender, RunnerPool
from cutegen_core.evaluate.timing.contest import Entry, Race, RaceResult, Watcher
from cutegen_core.evaluate.timing.schedule import MOST_SETS
from cutegen_core.evaluate.timing.series import Series
from cutegen_core.execute.cuda import health, nvml
from cutegen_core.execute.cuda.nvml import Monitor
from cutegen_core.judge.gpu.client import DeviceJudge, Drawing, Sets, Unfit
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import StoppedError


@dataclass
class Racing:
    """One race in progress; the caller holds the device's lock."""

    race: Race
    device: Device
    reference: Reference
    judge: DeviceJudge
    pool: RunnerPool
    watch: Watcher
    lost: dict[str, str] = field(default_factory=dict)

    def carry_out(self) -> RaceResult:
        """Time the entries.

        Raises:
            StoppedError: the user stopped it; raised between two turns at the latest.
            MachineError: the device, the driver or one of our processes failed.
        """
        with contextlib.ExitStack() as stack:
            kernels = [KernelContender(name, self.pool.take()) for name in self.race.entries]
            stack.callback(_close_all, kernels)
            sets = self._prepare()
            if isinstance(sets, Unfit):
                return RaceResult(not_timed=f"no room for its buffers: {sets.reason}")
            ready = [kernel for kernel in kernels if self._is_ready(kernel, self.race.entries[kernel.name], sets)]
            self.pool.wait_until_idle()
            return self._time(ready, sets, stack) if ready else RaceResult(lost=self.lost)

    def _prepare(self) -> Sets | Unfit:
        self._pause()
        workload = self.race.workload
        drawing = Drawing(self.reference.source(workload), workload.values, self.race.seed)
        return self.judge.prepare(drawing, self.reference.signature(workload), MOST_SETS)

    def _is_ready(self, kernel: KernelContender, entry: Entry, sets: Sets) -> bool:
        """Load the kernel and run it; note why it is lost."""
        self._pause()
        try:
            kernel.load(entry, sets)
            kernel.run_first()
        except Dropped as dropped:
            self._lose(kernel, dropped)
            return False
        damage = self.judge.check_guards()
        if damage:
            self.lost[kernel.name] = damage
        return not damage

    def _lose(self, kernel: KernelContender, dropped: Dropped) -> None:
        self.lost[kernel.name] = f"{dropped.status}: {dropped}"
        kernel.close()
        if dropped.status in RUN_FAULTS:
            health.check(self.device.uuid)

    def _time(self, ready: list[KernelContender], sets: Sets, stack: contextlib.ExitStack) -> RaceResult:
        gpu = nvml.NvmlGpu(self.device.uuid)
        stack.callback(gpu.close)
        series = Series(self.device.name, sets.timed, stack.enter_context(Monitor(gpu)), self._pause, lambda _: None)
        series.race(ready, self.race.turns)
        return RaceResult(series.samples(), self.lost | {u.contender: u.reason for u in series.untimed})

    def _pause(self) -> None:
        if self.watch.stopped():
            raise StoppedError("stopped by the person")


def _close_all(kernels: Sequence[KernelContender]) -> None:
    """End the processes at the same time: a context takes some 0.1 s to go."""
    with ThreadPoolExecutor(len(kernels)) as pool:
        list(pool.map(KernelContender.close, kernels))
