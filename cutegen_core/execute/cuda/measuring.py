"""Measure the device time of a few kernels with a cold cache and without launch overhead; for runner and judge.

One *round* uses each buffer set once, so that a kernel gains nothing from data it keeps from an earlier sample:

1. Run a warm-up on a set that is never timed, to raise the clocks and fill the instruction caches.
2. For each timed set: poison the outputs, flush the L2, record an event, run the kernels, record an event.

A round is captured into one CUDA graph and replayed, so launches cost no host time and the events enclose only the
kernels. Work that cannot be captured is enqueued directly ("events"); then the flush before each sample hides the
host's launches. Persisting L2 lines are reset before each round.

Torch-free. https://docs.nvidia.com/cuda/cuda-driver-api/ (cuEventRecordWithFlags, cuCtxResetPersistingL2Cache)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda.driver import DriverError, call, wait_until_idle
from cutegen_core.execute.cuda.flush import Flush

GRAPH, EVENTS = "graph replay", "events"
MOST_SETS = 32
_EXTERNAL = cuda.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
_THREAD_LOCAL = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class TimedWork(Protocol):
    """The work to time. Both methods only enqueue; nothing runs while the stream is being captured."""

    def run(self, stream: int, index: int) -> None:
        """Enqueue the kernels (and the zeroing of scratch) of one buffer set."""

    def poison(self, stream: int, index: int) -> None:
        """Enqueue filling the set's outputs and unzeroed scratch with bytes that are never right; not timed."""


@dataclass(frozen=True)
class RoundPlan:
    """The plan of one round.

    Attributes:
        order: the sets to time, each at most once, at most MOST_SETS.
        warm: the set of the warm-up, not in `order`.
        warm_runs: number of warm-up runs.
    """

    order: tuple[int, ...]
    warm: int = 0
    warm_runs: int = 2


@dataclass(frozen=True)
class Samples:
    """Device time in µs of each set of a round, in the round's order; `method` is GRAPH or EVENTS."""

    us: tuple[float, ...]
    method: str


class Meter:
    """Flush buffers and events in the current context; one thread at a time.

    Args:
        stream: any stream but the legacy default stream, which cannot be captured.
        l2_bytes: size of the device's L2.

    Raises:
        DriverError: here and in every method, if the driver refuses a call or a kernel failed.
    """

    def __init__(self, stream: int, l2_bytes: int) -> None:
        self.stream = stream
        self.flush = Flush(l2_bytes)
        self._begins = [call(cuda.cuEventCreate, 0) for _ in range(MOST_SETS)]
        self._ends = [call(cuda.cuEventCreate, 0) for _ in range(MOST_SETS)]

    def measure(self, work: TimedWork, steps: RoundPlan, deadline: float) -> Samples:
        """Measure one round, through a graph if the work can be captured.

        Args:
            deadline: in the time of `time.monotonic`; `driver.Unfinished` if the device is still busy then.
        """
        graph = self.capture(lambda: self.enqueue(work, steps, captured=True))
        if graph is None:
            return self.measure_directly(work, steps, deadline)
        try:
            return self.replay(graph.executable, steps, deadline)
        finally:
            graph.close()

    def measure_directly(self, work: TimedWork, steps: RoundPlan, deadline: float) -> Samples:
        """Measure one round of direct launches."""
        self.reset()
        self.enqueue(work, steps, captured=False)
        return Samples(self.read_times(steps, deadline), EVENTS)

    def replay(self, executable: int, steps: RoundPlan, deadline: float) -> Samples:
        """Measure one replay of a graph that holds the round."""
        self.reset()
        call(cuda.cuGraphLaunch, executable, self.stream)
        return Samples(self.read_times(steps, deadline), GRAPH)

    def enqueue(self, work: TimedWork, steps: RoundPlan, *, captured: bool) -> None:
        """Enqueue a whole round; call it alone for a capture that the caller began, such as torch's."""
        for _ in range(steps.warm_runs):
            work.run(self.stream, steps.warm)
        for slot, index in enumerate(steps.order):
            work.poison(self.stream, index)
            self.flush.enqueue(self.stream)
            self._record(self._begins[slot], captured)
            work.run(self.stream, index)
            self._record(self._ends[slot], captured)

    def read_times(self, steps: RoundPlan, deadline: float) -> tuple[float, ...]:
        """Wait for a round and return its times in µs."""
        wait_until_idle(self.stream, deadline)
        pairs = zip(self._begins, self._ends, steps.order, strict=False)
        return tuple(1000.0 * call(cuda.cuEventElapsedTime, begin, end) for begin, end, _ in pairs)

    def reset(self) -> None:
        """Reset the L2 lines that a kernel made persistent; needed before each round."""
        call(cuda.cuCtxResetPersistingL2Cache)

    def capture(self, enqueue: Callable[[], None]) -> RoundGraph | None:
        """Capture the work that `enqueue` enqueues; None if it cannot be captured."""
        call(cuda.cuStreamBeginCapture, self.stream, _THREAD_LOCAL)
        try:
            enqueue()
        except DriverError:
            cuda.cuStreamEndCapture(self.stream)
            return None
        code, graph = cuda.cuStreamEndCapture(self.stream)
        return RoundGraph(graph) if code == cuda.CUresult.CUDA_SUCCESS else None

    def _record(self, event: Any, captured: bool) -> None:  # noqa: ANN401 - CUevent
        # In a capture this becomes a graph node that records the time at every replay.
        call(cuda.cuEventRecordWithFlags, event, self.stream, _EXTERNAL if captured else 0)


class RoundGraph:
    """A captured round, ready for replay; `close` it while the stream is idle."""

    def __init__(self, graph: Any) -> None:  # noqa: ANN401 - CUgraph
        self._graph = graph
        self.executable = int(call(cuda.cuGraphInstantiate, graph, 0))

    def close(self) -> None:
        call(cuda.cuGraphExecDestroy, self.executable)
        call(cuda.cuGraphDestroy, self._graph)
