"""Build a graph's rows from its edges, in two passes over chunks, so that only the rows themselves need memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.graph import Array, Ids
from cutegen_core.workloads.gnn.native.abi import address, native


class Chunk(NamedTuple):
    """Some edges, as two arrays [edges] of int64: what flows along edge i goes from `source[i]` to `target[i]`."""

    source: Ids
    target: Ids


Edges: TypeAlias = Callable[[], Iterator[Chunk]]
"""Begins a pass over all edges; every pass gives the same."""


class InRows(NamedTuple):
    """The rows of a graph.

    Attributes:
        indptr: [nodes + 1], int64; row v is `indices[indptr[v]:indptr[v + 1]]`.
        indices: [edges kept], of the type `id_dtype`; ascending in each row.
        repeated: how many edges were left out because they occurred before.
    """

    indptr: Ids
    indices: Array
    repeated: int


def id_dtype(nodes: int) -> type[np.int32] | type[np.int64]:
    """Return the narrowest type that holds the ids of so many nodes."""
    return np.int32 if nodes <= 2**31 else np.int64


def build_rows(
    what: str, nodes: int, edges: Edges, *, undirected: bool, allocate: Callable[[int, type], Array] = np.empty
) -> InRows:
    """Return sorted rows of in-neighbours without repeated edges.

    Args:
        what: names the edges in an error.
        undirected: every edge also counts in the other direction.
        allocate: makes the array of ids, which may be larger than memory.

    Raises:
        UsageError: an edge names a node that does not exist.
    """
    counts = np.zeros(nodes + 1, np.int64)
    for row, entry, first in _pairs(edges, undirected):
        bad = native().count_rows(address(row), address(entry), len(row), nodes, address(counts))
        if bad >= 0:
            node = entry[bad] if 0 <= row[bad] < nodes else row[bad]
            raise UsageError(f"{what}: edge {first + bad} names node {node}; there are nodes 0 to {nodes - 1}.")
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(counts[:nodes], out=indptr[1:])
    indices = allocate(int(indptr[-1]), id_dtype(nodes))
    bits = 8 * indices.itemsize
    cursor = indptr.copy()
    for row, entry, _ in _pairs(edges, undirected):
        getattr(native(), f"place_{bits}")(address(row), address(entry), len(row), address(cursor), address(indices))
    kept = getattr(native(), f"sort_rows_{bits}")(address(indptr), nodes, address(indices))
    return InRows(indptr, indices[:kept], len(indices) - kept)


def _pairs(edges: Edges, undirected: bool) -> Iterator[tuple[Ids, Ids, int]]:
    """Yield (rows, entries, number of the first edge)."""
    first = 0
    for chunk in edges():
        source, target = (np.ascontiguousarray(each, np.int64) for each in chunk)
        yield target, source, first
        if undirected:
            yield source, target, first
        first += len(source)
