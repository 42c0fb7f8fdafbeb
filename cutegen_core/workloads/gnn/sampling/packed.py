"""Keep a batch's ids in one piece of memory, which one copy takes to a device."""

from __future__ import annotations

from typing import NamedTuple

import torch

from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.native.abi import GaveUp, address
from cutegen_core.workloads.gnn.sampling.batch import Hop, Sampled
from cutegen_core.workloads.gnn.sampling.sampler import Buffers
from cutegen_core.workloads.gnn.sampling.transposed import (
    ALIGNED_IDS,
    TransposedPlace,
    aligned,
    place_behind,
    room_of,
    transpose,
)

_FIRST_ROOM = 1 << 14
_SPARE = 1.25
"""Transposed rows get more room by this factor than the batch that did not fit."""


class PackedBuffers(Buffers):
    """A batch's ids in one piece of memory, which one copy takes to a device: nodes, labels, indptr, idx.

    Transposed rows lie right behind the last entry, so that nothing unused is copied.

    Attributes:
        whole: the memory, int64.
        after_nodes: where the nodes' room ends; what lies before is needed only where features are gathered.
    """

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._rooms = {"nodes": _FIRST_ROOM, "labels": 0, "indptr": _FIRST_ROOM, "idx": _FIRST_ROOM, "transposed": 0}
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

    def reserve_transposed(self, sampled: Sampled) -> bool:
        """Return whether there is room for the batch's transposed rows; else make it, and lose what was drawn."""
        wanted = room_of(sampled.hops) + ALIGNED_IDS
        if self._rooms["transposed"] >= wanted:
            return True
        self._rooms["transposed"] = aligned(int(wanted * _SPARE))
        self._allocate_all()
        return False

    def transpose(self, sampled: Sampled) -> Sampled:
        """Return a batch that was drawn into these buffers with its transposed rows."""
        end = max(self.start_of(hop.idx) + len(hop.idx) for hop in sampled.hops)
        sizes = [(len(hop.idx), hop.sources) for hop in sampled.hops]
        places, _ = place_behind(aligned(end), sizes)
        return transpose(sampled, self.whole.numpy(), places)

    def start_of(self, array: Ids) -> int:
        """Return where a view of these buffers begins in `whole`."""
        return (address(array) - self._origin) // self.whole.itemsize

    def _allocate_all(self) -> None:
        self.whole = torch.empty(sum(self._rooms.values()), dtype=torch.int64, pin_memory=self._pin)
        self._origin, self.after_nodes = self.whole.data_ptr(), self._rooms["nodes"]
        nodes, self.labels, indptr, idx, _ = self.whole.split_with_sizes(list(self._rooms.values()))
        self.nodes, self.indptr, self.idx = nodes.numpy(), indptr.numpy(), idx.numpy()


class HopPlace(NamedTuple):
    """Where the parts of a hop begin in a batch's memory; `transposed` is None where it is not transposed."""

    idx: int
    indptr: int
    transposed: TransposedPlace | None = None


class PackedIds(NamedTuple):
    """Where the parts of a batch begin in one piece of memory.

    Attributes:
        whole: int64, up to the end of the last part.
        after_nodes: where the labels begin.
        room: length of the longest `whole` of batches that lie alike.
    """

    whole: torch.Tensor
    after_nodes: int
    hops: tuple[HopPlace, ...]
    room: int

    def first(self, with_nodes: bool) -> int:
        """Return where what a device needs begins; nodes are needed only where features are gathered there."""
        return 0 if with_nodes else self.after_nodes


def pack(buffers: PackedBuffers, sampled: Sampled) -> PackedIds:
    """Return a batch that was drawn into these buffers as one piece."""
    last = [hop.transposed.starts if hop.transposed else hop.idx for hop in sampled.hops]
    end = max([buffers.start_of(part) + len(part) for part in last])
    places = tuple([_place(buffers, hop) for hop in sampled.hops])
    return PackedIds(buffers.whole[:end], buffers.after_nodes, places, end)


def _place(buffers: PackedBuffers, hop: Hop) -> HopPlace:
    place, back = HopPlace(buffers.start_of(hop.idx), buffers.start_of(hop.indptr)), hop.transposed
    if back is None:
        return place
    return place._replace(transposed=TransposedPlace(buffers.start_of(back.users), buffers.start_of(back.starts)))
