"""Put batches where they are computed: a CUDA GPU, the CPU, or a declared sleep.

1. `send` starts the transfer of a batch: on CUDA a copy on a stream of its own, from the slot's pinned memory.
2. `run` computes on it: on CUDA it only queues, behind the copy's event.
3. `settle` gives the batch's slot back as soon as nothing reads it any more; on CUDA it also waits for the computation
   before, so that the next batch's copy and computation are queued while this one is computed.
4. `finish` waits for everything. Only then the times of a batch may be read.

A padded batch (`sampling/fixed.py`) is copied into one of a few memories on the GPU that are used in turn.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.aggregate import TransposedTensors
from cutegen_core.workloads.gnn.models.sampled import HopTensors
from cutegen_core.workloads.gnn.sampling.batch import Hop
from cutegen_core.workloads.gnn.sampling.loader import Batch
from cutegen_core.workloads.gnn.sampling.packed import HopPlace
from cutegen_core.workloads.gnn.training.settings import sleep_of


class Inputs(NamedTuple):
    """A batch as a model reads it.

    Attributes:
        number: of the batch in its epoch.
        features: [m, width]; with features on the device, the rows of all nodes of the graph.
        nodes: [m], the rows of this batch, where `features` has those of all nodes.
        labels: of the seeds; negative where none is known, or the row was added.
        place: number of the memory in which the batch lies, where later batches of the same shapes will, too; else 0.
    """

    number: int
    features: Tensor
    nodes: Tensor | None
    labels: Tensor
    hops: tuple[HopTensors, ...]
    place: int = 0

    def rows(self) -> Tensor:
        """Return the features of the batch's nodes."""
        return self.features if self.nodes is None else self.features.index_select(0, self.nodes)


Step = Callable[[Inputs], None]
_NO_FEATURES = torch.empty(0)
_IDS_A_LOAD = 2
"""An id whose place is a multiple of this begins at 16 bytes, as kernels that load wide need it."""
_IN_TURN = 3
"""Memories for padded batches: one is computed on, one is copied, and the copy may be ahead by one more."""
MOST_ENTRIES = 2**31
"""A kernel's tests read no larger table, and its offsets may have 32 bits."""
_places = itertools.count(1)


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
        memory: the tensors of which the others are views, where they are this batch's own.
        fixed: the memory into which a padded batch was copied.
        copied, computed: when that was; to be read after `finish`.
        copy_ended: on CUDA, the event behind which the batch may be read, and its slot be reused.
    """

    batch: Batch
    inputs: Inputs
    memory: tuple[Tensor, ...]
    copied: Callable[[], Interval] = _not_yet
    computed: Callable[[], Interval] = _not_yet
    copy_ended: torch.cuda.Event | None = None
    fixed: FixedMemory | None = None


class ComputeDevice(Protocol):
    """What the pipeline asks of a device.

    Attributes:
        where: torch's name of it.
        note: what it is, in words for a person.
        reads_every: after so many batches a value may be read back without stalling the device.
        captures: steps on padded batches can be captured.
    """

    where: torch.device
    note: str
    reads_every: int
    captures: bool

    def send(self, batch: Batch) -> InFlight: ...
    def run(self, flight: InFlight, step: Step) -> None: ...
    def settle(self, flight: InFlight) -> None: ...
    def finish(self) -> None: ...
    def free_bytes(self) -> int: ...


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
        flight = _put_batch(batch, self.where, self._table)
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


class FixedMemory:
    """Memory on a GPU for padded batches of one layout.

    Attributes:
        computed: the event behind which the batch that lies here may be overwritten; None while there is none.
    """

    def __init__(self, batch: Batch, where: torch.device, table: Tensor | None) -> None:
        self._first = batch.packed.first(table is not None)
        self._ids = torch.zeros(batch.packed.room - self._first, dtype=torch.int64, device=where)
        self._gathers, self._place, self._inputs = table is not None, new_place(), dict[bool, Inputs]()
        features = table
        if features is None:
            assert batch.features is not None
            features = torch.zeros(batch.features.shape, dtype=batch.features.dtype, device=where)
        self._features = features
        self.computed: torch.cuda.Event | None = None
        torch.cuda.current_stream(where).synchronize()  # the zeros; another stream copies into them

    def load(self, batch: Batch) -> Inputs:
        """Queue the copy of a batch on the current stream; return views of this memory."""
        ids = batch.packed.whole[self._first :]
        self._ids[: len(ids)].copy_(ids, non_blocking=True)
        if batch.features is not None:  # what lies behind are rows of earlier batches, or zeros
            self._features[: batch.nodes].copy_(batch.features[: batch.nodes], non_blocking=True)
        transposed = any(hop.transposed for hop in batch.sampled.hops)
        if transposed not in self._inputs:
            views = _Views(batch, self._ids, self._first)
            inputs = views.inputs(self._features, views.nodes() if self._gathers else None)
            self._inputs[transposed] = inputs._replace(place=self._place)
        return self._inputs[transposed]._replace(number=batch.number)


def new_place() -> int:
    """Return a number for memory whose batches a step may be captured for."""
    return next(_places)


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
                flight = _put_batch(batch, self.where, self._table)
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


def _put_batch(batch: Batch, where: torch.device, table: Tensor | None) -> InFlight:
    """Return the batch on a device; out of pinned memory this only queues copies on the current stream.

    All ids travel in one copy, and their parts are views of it: a copy's cost is the host's time, not its bytes.
    """
    first = batch.packed.first(table is not None)
    ids = batch.packed.whole[first:].to(where, non_blocking=True)
    views = _Views(batch, ids, first)
    if table is not None:
        inputs = views.inputs(table, views.nodes())
    elif batch.features is not None:
        features = batch.features.to(where, non_blocking=True)
        views.memory.append(features)
        inputs = views.inputs(features, None)
    else:
        inputs = views.inputs(_NO_FEATURES, None)
    return InFlight(batch, inputs, tuple(views.memory))


class _Views:
    """The parts of a batch whose ids are in one tensor, which begins with the batch's id `first`.

    Attributes:
        memory: the tensor, and what was copied out of it.
    """

    def __init__(self, batch: Batch, ids: Tensor, first: int) -> None:
        self._batch, self._ids, self._first = batch, ids, first
        self.memory = [ids]

    def nodes(self) -> Tensor:
        return self._part(0, len(self._batch.sampled.nodes))

    def inputs(self, features: Tensor, nodes: Tensor | None) -> Inputs:
        batch, packed = self._batch, self._batch.packed
        hops = tuple(self._hop(hop, place) for hop, place in zip(batch.sampled.hops, packed.hops, strict=True))
        labels = self._part(packed.after_nodes, len(batch.labels))
        return Inputs(batch.number, features, nodes, labels, hops)

    def _hop(self, hop: Hop, place: HopPlace) -> HopTensors:
        idx, indptr = self._part(place.idx, len(hop.idx)), self._part(place.indptr, hop.targets + 1)
        transposed = None
        if hop.transposed is not None and place.transposed is not None:
            users, starts = place.transposed
            transposed = TransposedTensors(self._part(users, len(hop.idx)), self._part(starts, hop.sources + 1))
        return HopTensors(idx, indptr, hop.targets, hop.sources, transposed)

    def _part(self, start: int, count: int) -> Tensor:
        view = self._ids.narrow(0, start - self._first, count)
        if start % _IDS_A_LOAD == 0:
            return view
        self.memory.append(view.clone())  # once here, instead of at every call of a kernel that loads wide
        return self.memory[-1]
