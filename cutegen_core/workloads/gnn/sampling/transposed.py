"""Transpose hops: for each source the rows that read it, from which a gradient is added up in one order.

The outermost hop is left out: its table are the features, which take no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.native.abi import address, native
from cutegen_core.workloads.gnn.sampling.batch import Hop, Sampled, TransposedHop

ALIGNED_IDS = 32
"""Every part of a batch in one memory begins at a multiple of so many ids: at 256 bytes."""


class TransposedPlace(NamedTuple):
    """Where a hop's transposed rows begin in a batch's memory."""

    users: int
    starts: int


def aligned(count: int) -> int:
    """Return the smallest room for so many ids."""
    return -(-count // ALIGNED_IDS) * ALIGNED_IDS


def room_of(hops: Iterable[Hop]) -> int:
    """Return how many ids the transposed rows of these hops take; the outermost one comes first and takes none."""
    _, end = place_behind(0, [(len(hop.idx), hop.sources) for hop in hops])
    return end


def place_behind(start: int, sizes: Sequence[tuple[int, int]]) -> tuple[list[TransposedPlace | None], int]:
    """Return a place for each hop, and where the last of them ends.

    Args:
        sizes: entries and sources of each hop, outermost first.
    """
    places: list[TransposedPlace | None] = [None]
    for entries, sources in sizes[1:]:
        starts = start + aligned(entries)
        places.append(TransposedPlace(start, starts))
        start = starts + aligned(sources + 1)
    return places, start


def transpose(sampled: Sampled, whole: Ids, places: Sequence[TransposedPlace | None]) -> Sampled:
    """Return a batch with its transposed rows, written into `whole`."""
    hops = [
        hop if place is None else replace(hop, transposed=_transpose_hop(hop, whole, place))
        for hop, place in zip(sampled.hops, places, strict=True)
    ]
    return replace(sampled, hops=tuple(hops))


def _transpose_hop(hop: Hop, whole: Ids, place: TransposedPlace) -> TransposedHop:
    users = whole[place.users : place.users + len(hop.idx)]
    starts = whole[place.starts : place.starts + hop.sources + 1]
    native().transpose_rows(
        address(hop.indptr), address(hop.idx), hop.targets, hop.sources, address(users), address(starts)
    )
    return TransposedHop(users, starts)
