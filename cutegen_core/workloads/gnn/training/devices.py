"""Put batches where they are computed: a CUDA GPU, the CPU, or a declared sleep.

1. `send` starts the transfer of a batch: on CUDA a copy on a stream of its own, from the slot's pinned memory.
2. `run` computes on it: on CUDA it only queues, behind the copy's event.
3. `settle` gives the batch's slot back as soon as nothing reads it any more; on CUDA it also waits for the computation
   before, so that the next batch's copy and computation are queued while this one is computed.
4. `finish` waits for everything. Only then the times of a batch may be read.
"""

from __future__ import annotations

import re
import time
from collections import deque
from pathlib import Path

import torch
from torch import Tensor

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.sampling.loader import Batch
from cutegen_core.workloads.gnn.training.flights import ComputeDevice, FixedMemory, InFlight, Interval, Step, put_batch
from cutegen_core.workloads.gnn.training.settings import sleep_of

_IN_TURN = 3
"""Memories for padded batches: one is computed on, one is copied, and the copy may be ahead by one more."""
MOST_ENTRIES = 2**31
"""A kernel's tests read no larger table, and its offsets may have 32 bits."""


class Processor:
    """The CPU: nothing is copied, the model reads the slot itself."""

    where = torch.device("cpu")
    reads_every = 1
    captures = False

    def __init__(self, table: Tensor | None) -> None:
        self.note = f"cpu, {torch.get_num_threads()} threads"
        self._table = table

    def send(self, batch: Batch) -> InFlight:
        """Return the batch as it lies in its slot."""
        start = time.perf_counter()
        flight = put_batch(batch, self.where, self._table)
        interval = Interval(start, time.perf_counter())
        flight.copied = lambda: interval
        return flight

    def run(self, flight: InFlight, step: Step) -> None:
        """Compute on the batch."""
        start = time.perf_counter()
        self._compute(flight, step)
        interval = Interval(start, time.perf_counter())
        flight.computed = lambda: interval

    def settle(self, flight: InFlight) -> None:
        """Give the slot back; the computation has ended."""
        flight.batch.release()

    def finish(self) -> None:
        """Do nothing: `run` returns when it is done."""

    def free_bytes(self) -> int:
        """Return how much memory can be used without swapping."""
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        return int(found[1]) << 10 if found else 0

    def _compute(self, flight: InFlight, step: Step) -> None:
        step(flight.inputs)


class Sleeper(Processor):
    """A declared sleep in place of a GPU's step: it computes nothing and leaves the processors to the loader."""

    def __init__(self, seconds: float) -> None:
        super().__init__(None)
        self.seconds = seconds
        self.note = f"declared sleep of {seconds * 1000:g} ms a batch in place of a GPU's step; nothing is computed"

    def _compute(self, flight: InFlight, step: Step) -> None:
        time.sleep(self.seconds)


class Gpu:
    """A CUDA GPU: copies on a side stream, computation on torch's current one, never more than two batches queued."""

    reads_every = 32
    captures = True

    def __init__(self, ordinal: int, table: Tensor | None, dtype: torch.dtype) -> None:
        """Open a GPU.

        Args:
            dtype: what models compute in; the table is kept in it where there is room.
        """
        self.where = torch.device("cuda", ordinal)
        self.note = torch.cuda.get_device_name(self.where)
        self._table = None if table is None else self._keep(table, dtype)
        self._copies = torch.cuda.Stream(self.where)  # type: ignore[no-untyped-call]
        self._queued: deque[torch.cuda.Event] = deque()
        self._fixed: deque[FixedMemory] = deque()
        self._origin = _timed_event()
        self._origin.record(torch.cuda.current_stream(self.where))
        self._origin.synchronize()
        self._origin_s = time.perf_counter()

    def send(self, batch: Batch) -> InFlight:
        """Start the copy of a batch on the side stream."""
        start, end = _timed_event(), _timed_event()
        fixed = self._next_fixed(batch) if batch.fixed else None
        with torch.cuda.stream(self._copies):
            if fixed is None:
                start.record()
                flight = put_batch(batch, self.where, self._table)
            else:
                if fixed.computed is not None:
                    self._copies.wait_event(fixed.computed)
                start.record()
                flight = InFlight(batch, fixed.load(batch), (), fixed=fixed)
            end.record()
        flight.copied = lambda: self._interval(start, end)
        flight.copy_ended = end
        return flight

    def run(self, flight: InFlight, step: Step) -> None:
        """Queue the computation behind the copy."""
        assert flight.copy_ended is not None
        stream = torch.cuda.current_stream(self.where)
        start, end = _timed_event(), _timed_event()
        stream.wait_event(flight.copy_ended)
        for tensor in flight.memory:
            tensor.record_stream(stream)  # allocated on the side stream: not to be reused before this one is done
        start.record(stream)
        step(flight.inputs)
        end.record(stream)
        flight.computed = lambda: self._interval(start, end)
        if flight.fixed is not None:
            flight.fixed.computed = end
        self._queued.append(end)

    def settle(self, flight: InFlight) -> None:
        """Give the slot back once the copy out of it has ended; wait for the computation before this batch's."""
        assert flight.copy_ended is not None
        flight.copy_ended.synchronize()
        flight.batch.release()
        while len(self._queued) > 1:
            self._queued.popleft().synchronize()

    def finish(self) -> None:
        """Wait for all that was queued."""
        torch.cuda.synchronize(self.where)
        self._queued.clear()

    def free_bytes(self) -> int:
        """Return what the driver has left, and torch's own cache."""
        free, _ = torch.cuda.mem_get_info(self.where)
        kept = torch.cuda.memory_reserved(self.where) - torch.cuda.memory_allocated(self.where)
        return int(free + kept)

    def _keep(self, table: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the table on the GPU, in the dtype if that leaves half of the memory free."""
        wanted = table.numel() * (table.itemsize + dtype.itemsize)
        converts = table.numel() < MOST_ENTRIES and 2 * wanted <= self.free_bytes()
        moved = table.to(self.where)
        return moved.to(dtype) if converts else moved

    def _next_fixed(self, batch: Batch) -> FixedMemory:
        """Return the memory whose batch was computed the longest ago."""
        if len(self._fixed) < _IN_TURN:
            self._fixed.append(FixedMemory(batch, self.where, self._table))
        else:
            self._fixed.rotate(-1)
        return self._fixed[-1]

    def _interval(self, start: torch.cuda.Event, end: torch.cuda.Event) -> Interval:
        first, last = (self._origin_s + self._origin.elapsed_time(event) / 1000 for event in (start, end))
        return Interval(first, last)


def open_device(device: str, table: Tensor | None, dtype: torch.dtype, ordinal: int = 0) -> ComputeDevice:
    """Return the device of a setting.

    Args:
        table: the features, where they lie on the device.
        dtype: what models compute in.
        ordinal: of the GPU, in a run of several ranks; `require_gpu` has found it.
    """
    seconds = sleep_of(device)
    if seconds is not None:
        return Sleeper(seconds)
    if device == "cpu":
        return Processor(table)
    torch.cuda.set_device(ordinal)
    return Gpu(ordinal, table, dtype)


def require_gpu(ordinal: int) -> None:
    """Refuse a GPU that torch does not find.

    Raises:
        UsageError: the text says how many it finds.
    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if ordinal >= found:
        raise UsageError(
            f"device cuda: rank {ordinal} needs GPU {ordinal}, but torch {torch.__version__} finds {found}. Choose "
            "device cpu, fewer ranks, or install a CUDA build of torch (docs/gpu.md)."
        )


def _timed_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
