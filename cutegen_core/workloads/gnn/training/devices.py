"""Put batches where they are computed: a CUDA GPU, the CPU, or a declared sleep.

1. `send` starts the transfer of a batch: on CUDA a copy on a stream of its own, from the slot's pinned memory.
2. `run` computes on it: on CUDA it only queues, behind the copy's event.
3. `settle` gives the batch's slot back as soon as nothing reads it any more.
4. `finish` waits for everything. Only then the times of a batch may be read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.models.sampled import HopTensors
from cutegen_core.workloads.gnn.sampling.loader import Batch
from cutegen_core.workloads.gnn.training.settings import sleep_of


class Inputs(NamedTuple):
    """A batch as a model reads it.

    Attributes:
        number: of the batch in its epoch.
        features: [m, width]; with features on the device, gathered there as part of the computation.
        labels: of the seeds.
    """

    number: int
    features: Tensor
    labels: Tensor
    hops: tuple[HopTensors, ...]


Step = Callable[[Inputs], None]
_NO_FEATURES = torch.empty(0)
_IDS_A_LOAD = 2
"""An id whose place is a multiple of this begins at 16 bytes, as kernels that load wide need it."""


class Interval(NamedTuple):
    """Start and end on the clock of `time.perf_counter`."""

    start: float
    end: float


def _not_yet() -> Interval:
    raise AssertionError("the batch has not been computed")


@dataclass
class InFlight:
    """A batch on its way.

    Attributes:
        nodes: ids on the device, where features are gathered there; else None, and `inputs` has the features.
        memory: the tensors of which the others are views.
        copied, computed: when that was; to be read after `finish`.
        copy_ended: on CUDA, the event behind which the batch may be read, and its slot be reused.
    """

    batch: Batch
    inputs: Inputs
    nodes: Tensor | None
    memory: tuple[Tensor, ...]
    copied: Callable[[], Interval]
    computed: Callable[[], Interval] = _not_yet
    copy_ended: torch.cuda.Event | None = None


class ComputeDevice(Protocol):
    """What the pipeline asks of a device.

    Attributes:
        where: torch's name of it.
        note: what it is, in words for a person.
        reads_every: after so many batches a value may be read back without stalling the device.
    """

    where: torch.device
    note: str
    reads_every: int

    def send(self, batch: Batch) -> InFlight: ...
    def run(self, flight: InFlight, step: Step) -> None: ...
    def settle(self, flight: InFlight) -> None: ...
    def finish(self) -> None: ...
    def free_bytes(self) -> int: ...


class Processor:
    """The CPU: nothing is copied, the model reads the slot itself."""

    where = torch.device("cpu")
    reads_every = 1

    def __init__(self, table: Tensor | None) -> None:
        self.note = f"cpu, {torch.get_num_threads()} threads"
        self._table = table

    def send(self, batch: Batch) -> InFlight:
        """Return the batch as it lies in its slot."""
        start = time.perf_counter()
        flight = _put_batch(batch, self.where, self._table is not None)
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
        step(_with_features(flight, self._table))


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

    reads_every = 8

    def __init__(self, ordinal: int, table: Tensor | None) -> None:
        self.where = torch.device("cuda", ordinal)
        self.note = torch.cuda.get_device_name(self.where)
        self._table = None if table is None else table.to(self.where)
        self._copies = torch.cuda.Stream(self.where)  # type: ignore[no-untyped-call]
        self._previous: torch.cuda.Event | None = None
        self._origin = _timed_event()
        self._origin.record(torch.cuda.current_stream(self.where))
        self._origin.synchronize()
        self._origin_s = time.perf_counter()

    def send(self, batch: Batch) -> InFlight:
        """Start the copy of a batch on the side stream."""
        start, end = _timed_event(), _timed_event()
        with torch.cuda.stream(self._copies):
            start.record()
            flight = _put_batch(batch, self.where, self._table is not None)
            end.record()
        flight.copied = lambda: self._interval(start, end)
        flight.copy_ended = end
        return flight

    def run(self, flight: InFlight, step: Step) -> None:
        """Queue the computation behind the copy; wait for the computation before it."""
        assert flight.copy_ended is not None
        stream = torch.cuda.current_stream(self.where)
        start, end = _timed_event(), _timed_event()
        stream.wait_event(flight.copy_ended)
        for tensor in flight.memory:
            tensor.record_stream(stream)  # allocated on the side stream: not to be reused before this one is done
        start.record(stream)
        step(_with_features(flight, self._table))
        end.record(stream)
        flight.computed = lambda: self._interval(start, end)
        if self._previous is not None:
            self._previous.synchronize()
        self._previous = end

    def settle(self, flight: InFlight) -> None:
        """Give the slot back once the copy out of it has ended; drop the batch's tensors."""
        assert flight.copy_ended is not None
        flight.copy_ended.synchronize()
        flight.batch.release()

    def finish(self) -> None:
        """Wait for all that was queued."""
        torch.cuda.synchronize(self.where)
        self._previous = None

    def free_bytes(self) -> int:
        """Return what the driver has left, and torch's own cache."""
        free, _ = torch.cuda.mem_get_info(self.where)
        kept = torch.cuda.memory_reserved(self.where) - torch.cuda.memory_allocated(self.where)
        return int(free + kept)

    def _interval(self, start: torch.cuda.Event, end: torch.cuda.Event) -> Interval:
        first, last = (self._origin_s + self._origin.elapsed_time(event) / 1000 for event in (start, end))
        return Interval(first, last)


def open_device(device: str, table: Tensor | None, ordinal: int = 0) -> ComputeDevice:
    """Return the device of a setting.

    Args:
        table: the features, where they lie on the device.
        ordinal: of the GPU, in a run of several ranks; `require_gpu` has found it.
    """
    seconds = sleep_of(device)
    if seconds is not None:
        return Sleeper(seconds)
    if device == "cpu":
        return Processor(table)
    torch.cuda.set_device(ordinal)
    return Gpu(ordinal, table)


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


def _put_batch(batch: Batch, where: torch.device, gathers: bool) -> InFlight:
    """Return the batch on a device; out of pinned memory this only queues copies on the current stream.

    All ids travel in one copy, and their parts are views of it: a copy's cost is the host's time, not its bytes.
    """
    packed = batch.packed
    first = 0 if gathers else packed.after_nodes
    ids = packed.whole[first:].to(where, non_blocking=True)
    memory = [ids]

    def part(start: int, count: int) -> Tensor:
        view = ids.narrow(0, start - first, count)
        if start % _IDS_A_LOAD == 0:
            return view
        memory.append(view.clone())  # once here, instead of at every call of a kernel that loads wide
        return memory[-1]

    nodes = part(0, len(batch.sampled.nodes)) if gathers else None
    hops = tuple(
        HopTensors(part(idx, len(hop.idx)), part(indptr, hop.targets + 1), hop.targets, hop.sources)
        for hop, (idx, indptr) in zip(batch.sampled.hops, packed.hops, strict=True)
    )
    features = _NO_FEATURES
    if batch.features is not None:
        features = batch.features.to(where, non_blocking=True)
        memory.append(features)
    inputs = Inputs(batch.number, features, part(packed.after_nodes, len(batch.labels)), hops)
    return InFlight(batch, inputs, nodes, tuple(memory), _not_yet)


def _with_features(flight: InFlight, table: Tensor | None) -> Inputs:
    if table is None or flight.nodes is None:
        return flight.inputs
    return flight.inputs._replace(features=table.index_select(0, flight.nodes))
