"""Contenders of a measurement: kernels in runner processes, and the reference in eager and compiled PyTorch.

Each has a name and measures one round at a time. A failing kernel is an answer of its runner, a baseline that cannot be
measured an untimed round; both become a `Dropped` here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cutegen_core.evaluate.timing.contest import Entry
from cutegen_core.execute.cuda.runner_process import RunnerAnswer, RunnerProcess
from cutegen_core.judge.gpu import client as judge_device
from cutegen_core.records.trial import Status

RUN_S = 20.0
"""Wall-clock limit of one run at the benchmark size."""

RUN_FAULTS = (Status.RUNTIME_ERROR, Status.MEMORY_ERROR, Status.TIMEOUT)
"""Ends of a kernel after which the device is looked at."""


@dataclass(frozen=True)
class RoundSamples:
    """Samples of one round, in µs; `once_us` are those of the launches marked once, a share of which is in `us`."""

    us: tuple[float, ...]
    method: str
    once_us: tuple[float, ...] = ()


class Dropped(Exception):  # noqa: N818 - an outcome, not a fault
    """Outcome of a contender that cannot be measured, or no longer."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Contender(Protocol):
    """Takes part in rounds."""

    name: str

    def measure_round(
        self, order: Sequence[int], warm_runs: int, seconds: float, not_before: float = 0.0
    ) -> RoundSamples:
        """Measure one sample of each set in `order`; raises Dropped if there are none.

        Args:
            not_before: nothing runs on the device before this, in the time of `time.monotonic`.
        """


class KernelContender:
    """A compiled kernel in its own runner process; `close` ends it."""

    def __init__(self, name: str, runner: RunnerProcess) -> None:
        self.name = name
        self.runner = runner

    def load(self, entry: Entry, sets: judge_device.Sets) -> None:
        """Load the kernel and map the memory; raises Dropped if its scratch does not fit."""
        self._must_pass(self.runner.load(entry.cubin, entry.program, sets.shared))

    def run_first(self) -> None:
        """Run the kernel twice in a row on set 0; the second result is judged. Raises Dropped if a run fails.

        TEST has only seen first calls, and a round uses each set once: a kernel that skips buffers it has seen before
        would pass both.
        """
        self._must_pass(self.runner.run(0, calls=2, timeout_s=RUN_S))

    def measure_round(
        self, order: Sequence[int], warm_runs: int, seconds: float, not_before: float = 0.0
    ) -> RoundSamples:
        answer = self.runner.measure(order, warm=0, warm_runs=warm_runs, timeout_s=seconds, not_before=not_before)
        self._must_pass(answer)
        return RoundSamples(
            tuple(answer.result["us"]), answer.result["method"], tuple(answer.result.get("once_us", ()))
        )

    def close(self) -> None:
        self.runner.close()

    def _must_pass(self, answer: RunnerAnswer) -> None:
        if not answer.passed:
            raise Dropped(answer.status, answer.message)


class RunnerPool:
    """Runner processes started in advance (driver, context, sandbox: a third of a second), each used once."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._runners: list[RunnerProcess] = []

    def fill(self, count: int) -> None:
        """Start runners until `count` exist; do not wait for them."""
        while len(self._runners) < count:
            self._runners.append(RunnerProcess(self._uuid, measures=True))

    def take(self) -> RunnerProcess:
        """Return a started runner, or a new one."""
        return self._runners.pop(0) if self._runners else RunnerProcess(self._uuid, measures=True)

    def wait_until_idle(self) -> None:
        """Wait until all runners are idle, so that none disturbs a measurement."""
        for runner in self._runners:
            runner.wait_until_ready()

    def close(self) -> None:
        while self._runners:
            self._runners.pop().close()


class BaselineContender:
    """The reference, timed by one of the judge's processes."""

    def __init__(self, name: str, client: judge_device.BaselineTimer) -> None:
        self.name = name
        self._client = client

    def measure_round(
        self, order: Sequence[int], warm_runs: int, seconds: float, not_before: float = 0.0
    ) -> RoundSamples:
        time.sleep(max(0.0, not_before - time.monotonic()))
        found = self._client.measure(order, warm_runs, seconds)
        if found.untimed:
            raise Dropped(Status.RUNTIME_ERROR, found.untimed)
        return RoundSamples(found.us, found.method)
