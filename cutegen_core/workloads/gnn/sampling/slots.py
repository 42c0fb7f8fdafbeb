"""Keep the memory of prepared batches: buffers that are used again, page-locked where a GPU copies from them."""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch

from cutegen_core.workloads.gnn.graph import Array, Ids
from cutegen_core.workloads.gnn.native.abi import GaveUp, address, native
from cutegen_core.workloads.gnn.sampling.batch import Sampled
from cutegen_core.workloads.gnn.sampling.sampler import Buffers

_SPARE = 1.25
"""Buffers are made larger by this factor than the batch that did not fit, since the next may be larger still."""


_FIRST_ROOM = 1 << 14
_ALIGNED_IDS = 32
"""Every room is a multiple of so many ids, and so begins at 256 bytes."""


class PackedBuffers(Buffers):
    """A batch's ids in one piece of memory, which one copy takes to a device: nodes, labels, indptr, idx.

    Attributes:
        whole: the memory, int64.
        after_nodes: where the nodes' room ends; what lies before is needed only where features are gathered.
    """

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._rooms = {"nodes": _FIRST_ROOM, "labels": 0, "indptr": _FIRST_ROOM, "idx": _FIRST_ROOM}
        self._allocate_all()

    def grow(self, full: GaveUp) -> None:
        """Double the room that was too small; what the buffers hold is lost."""
        self._rooms[self.named(full)] *= 2
        self._allocate_all()

    def reserve_labels(self, count: int) -> None:
        """Make room for labels, before the batch is drawn."""
        if self._rooms["labels"] < count:
            self._rooms["labels"] = -(-count // _ALIGNED_IDS) * _ALIGNED_IDS
            self._allocate_all()

    def start_of(self, array: Ids) -> int:
        """Return where a view of these buffers begins in `whole`."""
        return (address(array) - self._origin) // self.whole.itemsize

    def _allocate_all(self) -> None:
        self.whole = torch.empty(sum(self._rooms.values()), dtype=torch.int64, pin_memory=self._pin)
        self._origin, self.after_nodes = self.whole.data_ptr(), self._rooms["nodes"]
        nodes, self.labels, indptr, idx = self.whole.split_with_sizes(list(self._rooms.values()))
        self.nodes, self.indptr, self.idx = nodes.numpy(), indptr.numpy(), idx.numpy()


class PackedIds(NamedTuple):
    """Where the parts of a batch begin in one piece of memory.

    Attributes:
        whole: int64, up to the end of the last row's entries.
        after_nodes: where the labels begin.
        hops: of each hop, where its idx and its indptr begin.
    """

    whole: torch.Tensor
    after_nodes: int
    hops: tuple[tuple[int, int], ...]


def pack(buffers: PackedBuffers, sampled: Sampled) -> PackedIds:
    """Return a batch that was drawn into these buffers as one piece."""
    starts = tuple([(buffers.start_of(hop.idx), buffers.start_of(hop.indptr)) for hop in sampled.hops])
    end = max([start + len(hop.idx) for hop, (start, _) in zip(sampled.hops, starts, strict=True)])
    return PackedIds(buffers.whole[:end], buffers.after_nodes, starts)


class Slot:
    """The memory of one batch."""

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._rows = torch.empty(0, dtype=torch.uint8)
        self.buffers = PackedBuffers(pin=pin)

    def slice_rows(self, table: Array, nodes: Ids) -> torch.Tensor:
        """Return the rows of `table` at `nodes`, copied into this slot's memory."""
        row_bytes = table.shape[1] * table.itemsize
        wanted = len(nodes) * row_bytes
        if len(self._rows) < wanted:
            self._rows = torch.empty(int(wanted * _SPARE), dtype=torch.uint8, pin_memory=self._pin)
        native().gather_rows(address(table), row_bytes, address(nodes), len(nodes), self._rows.data_ptr())
        return self._rows[:wanted].view(_dtype(table)).view(len(nodes), table.shape[1])

    def slice_labels(self, labels: Ids, nodes: Ids) -> torch.Tensor:
        """Return the labels of `nodes`, copied into this slot's memory; room was reserved."""
        out = self.buffers.labels[: len(nodes)]
        native().gather_rows(address(labels), labels.itemsize, address(nodes), len(nodes), out.data_ptr())
        return out


def _dtype(table: Array) -> torch.dtype:
    return torch.float16 if table.itemsize == 2 else torch.float32


class SlotPool:
    """Slots that loaders hand on from epoch to epoch, so that memory is allocated and page-locked once."""

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._spare: list[Slot] = []
        self._lock = threading.Lock()

    def take(self) -> Slot:
        """Return a slot that no batch uses, a new one if there is none."""
        with self._lock:
            return self._spare.pop() if self._spare else Slot(pin=self._pin)

    def give_back(self, slot: Slot) -> None:
        """Keep a slot for the next loader."""
        with self._lock:
            self._spare.append(slot)
