"""Keep a batch's ids in one piece of memory, which one copy takes to a device."""

from __future__ import annotations

from typing import NamedTuple

import torch

from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.native.abi import GaveUp, address
from cutegen_core.workloads.gnn.sampling.batch import Sampled
from cutegen_core.workloads.gnn.sampling.sampler import Buffers

_FIRST_ROOM = 1 << 14
ALIGNED_IDS = 32
"""Every room is a multiple of so many ids, and so begins at 256 bytes."""


def aligned(count: int) -> int:
    """Return the smallest room for so many ids."""
    return -(-count // ALIGNED_IDS) * ALIGNED_IDS


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
            self._rooms["labels"] = aligned(count)
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

    def first(self, with_nodes: bool) -> int:
        """Return where what a device needs begins; nodes are needed only where features are gathered there."""
        return 0 if with_nodes else self.after_nodes


def pack(buffers: PackedBuffers, sampled: Sampled) -> PackedIds:
    """Return a batch that was drawn into these buffers as one piece."""
    starts = tuple([(buffers.start_of(hop.idx), buffers.start_of(hop.indptr)) for hop in sampled.hops])
    end = max([start + len(hop.idx) for hop, (start, _) in zip(sampled.hops, starts, strict=True)])
    return PackedIds(buffers.whole[:end], buffers.after_nodes, starts)
