"""Batches on their way to a device: their tensors, the memory they lie in, and what the pipeline asks of a device.

A padded batch (`sampling/fixed.py`) is copied into one of a few memories on the GPU that are used in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from cutegen_core.workloads.gnn.aggregate import TransposedTensors
from cutegen_core.workloads.gnn.models.sampled import HopTensors
from cutegen_core.workloads.gnn.sampling.batch import Hop
from cutegen_core.workloads.gnn.sampling.loader import Batch
from cutegen_core.workloads.gnn.sampling.packed import HopPlace


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


def put_batch(batch: Batch, where: torch.device, table: Tensor | None) -> InFlight:
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
