"""Pad batches to fixed sizes, so that every step of a run has the same shapes and can be captured.

1. `fixed_sizes` derives the sizes from some batches: the largest of each, and as much more as they differ.
2. `FixedLayout` places each part of a padded batch in one piece of memory, the same for all batches.
3. A sampler draws straight into `FixedBuffers`; a batch that does not fit raises `DoesNotFitError`.
4. `FixedBuffers.pad` adds rows to each hop's end. They take the entries that are left over, which point at added
   sources, and a step ignores their labels: so nothing of them reaches a real row, a loss or a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.native.abi import GaveUp, address
from cutegen_core.workloads.gnn.sampling.batch import Hop, Sampled
from cutegen_core.workloads.gnn.sampling.packed import HopPlace, PackedIds
from cutegen_core.workloads.gnn.sampling.sampler import Buffers, plain_memory
from cutegen_core.workloads.gnn.sampling.transposed import aligned, place_behind, transpose

IGNORED = -100
"""The label of an added row; torch's cross entropy ignores it, too."""
_ROUND = 64
"""Sizes are multiples of this, and as many rows are added at least: no one of them becomes a hub."""


class DoesNotFitError(Exception):
    """Say that a batch is larger than the fixed sizes."""


class FixedHop(NamedTuple):
    """The fixed sizes of a hop, as in `Hop`, and where its entries and its rows begin in a layout."""

    targets: int
    sources: int
    entries: int
    idx: int = 0
    indptr: int = 0


def fixed_sizes(samples: Sequence[Sampled]) -> tuple[FixedHop, ...]:
    """Return sizes, outermost first, that leave room for batches larger than these."""
    nodes = [[sampled.hops[0].sources, *(hop.targets for hop in sampled.hops)] for sampled in samples]
    known = [_with_room(column) + _ROUND for column in zip(*nodes, strict=True)]
    entries = [_with_room(column) for column in zip(*([len(h.idx) for h in s.hops] for s in samples), strict=True)]
    return tuple(
        FixedHop(targets, sources, count) for (sources, targets), count in zip(pairwise(known), entries, strict=True)
    )


def _with_room(counts: Sequence[int]) -> int:
    wanted = 2 * max(counts) - min(counts)
    return -(-wanted // _ROUND) * _ROUND


class FixedLayout:
    """Where the parts of a padded batch lie in one piece of memory: nodes, labels, the rows of each hop, and behind
    them the transposed ones, where the layout has them.

    Attributes:
        nodes, seeds: how many a padded batch has.
        after_nodes: where the labels begin.
        places: of each hop, where its parts begin.
        before_transposed: length of what is used of the memory where no hop is transposed.
        total: length of the memory in ids.
        layered: the batches are drawn in layers.
        transposed: there is room for transposed rows.
    """

    def __init__(self, sizes: Sequence[FixedHop], *, layered: bool, transposed: bool = False) -> None:
        self.layered = layered
        self.nodes, self.seeds = sizes[0].sources, sizes[-1].targets
        self.after_nodes = aligned(self.nodes)
        start = self.after_nodes + aligned(self.seeds)
        hops = []
        for hop in sizes:
            idx = start + aligned(hop.targets + 1)
            hops.append(hop._replace(indptr=start, idx=idx))
            start = idx + aligned(hop.entries)
        self.hops, self.transposed, self.before_transposed, self.total = tuple(hops), transposed, start, start
        self.places = tuple(HopPlace(hop.idx, hop.indptr) for hop in hops)
        if transposed:
            back, self.total = place_behind(start, [(hop.entries, hop.sources) for hop in sizes])
            self.places = tuple(place._replace(transposed=its) for place, its in zip(self.places, back, strict=True))


class FixedBuffers(Buffers):
    """Memory for one padded batch. A frontier is drawn into the outermost hop's place, layers are copied there."""

    def __init__(self, layout: FixedLayout, *, pin: bool) -> None:
        self.layout = layout
        self.whole = torch.zeros(layout.total, dtype=torch.int64, pin_memory=pin)
        self.labels = self.whole[layout.after_nodes : layout.after_nodes + layout.seeds]
        self._ids: Ids = self.whole.numpy()
        self.nodes = self._ids[: layout.nodes]
        outer = layout.hops[0]
        self.indptr, self.idx = self._room(outer.indptr, outer.targets + 1), self._room(outer.idx, outer.entries)
        if layout.layered:
            self.indptr = plain_memory(sum(hop.targets + 1 for hop in layout.hops))
            self.idx = plain_memory(sum(hop.entries for hop in layout.hops))

    def grow(self, full: GaveUp) -> None:
        """Refuse: the sizes are fixed.

        Raises:
            DoesNotFitError: always.
        """
        raise DoesNotFitError(self.named(full))

    def packed(self, *, transposed: bool) -> PackedIds:
        """Return the batch as one piece, with or without its transposed rows."""
        layout = self.layout
        end = layout.total if transposed else layout.before_transposed
        return PackedIds(self.whole[:end], layout.after_nodes, layout.places, layout.total)

    def transpose(self, padded: Sampled) -> Sampled:
        """Return a padded batch with its transposed rows, for which the layout must have room."""
        return transpose(padded, self._ids, [place.transposed for place in self.layout.places])

    def pad(self, sampled: Sampled) -> Sampled:
        """Return a batch that was drawn into these buffers, padded.

        Raises:
            DoesNotFitError: there is no place for an added row, or too little for the entries.
        """
        pairs = list(zip(sampled.hops, self.layout.hops, strict=True))
        for hop, fixed in pairs:
            if hop.targets >= fixed.targets or hop.sources >= fixed.sources or len(hop.idx) > fixed.entries:
                raise DoesNotFitError
        # Inner hops first: those of a frontier are copies of the beginning of the outermost one.
        hops = [self._pad_hop(hop, fixed) for hop, fixed in reversed(pairs)]
        count = len(sampled.nodes)
        self.nodes[count:] = self.nodes[np.arange(len(self.nodes) - count) % count]
        return Sampled(self.nodes, tuple(reversed(hops)), sampled.edges)

    def _pad_hop(self, hop: Hop, fixed: FixedHop) -> Hop:
        indptr, idx = self._room(fixed.indptr, fixed.targets + 1), self._room(fixed.idx, fixed.entries)
        rows, entries = fixed.targets - hop.targets, fixed.entries - len(hop.idx)
        _put(hop.indptr, indptr)
        _put(hop.idx, idx)
        indptr[hop.targets + 1 :] = len(hop.idx) + np.arange(1, rows + 1) * entries // rows
        idx[len(hop.idx) :] = hop.sources + np.arange(entries) % (fixed.sources - hop.sources)
        return Hop(indptr, idx, fixed.targets, fixed.sources)

    def _room(self, start: int, count: int) -> Ids:
        return self._ids[start : start + count]


def _put(drawn: Ids, place: Ids) -> None:
    if address(drawn) != address(place):
        place[: len(drawn)] = drawn
