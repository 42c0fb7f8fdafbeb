"""Check what is read from files; every error names the file and the first place that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.npy_files import memory_bytes
from cutegen_core.workloads.gnn.graph import MOST_NODES, SPLITS, UNKNOWN, Array, Ids, Splits

MOST_CLASSES = MOST_FEATURES = 1 << 20
_BYTES_A_NODE = 40
"""Counters, indptr, cursors, labels and owners of splits, while a graph is converted."""


def check_nodes(place: str, nodes: int) -> int:
    """Return the number of nodes of a graph that has some, and not more than can be converted here.

    Raises:
        UsageError: it has none, or more than the sampler or this machine's memory takes.
    """
    if nodes < 1:
        raise UsageError(f"{place}: the graph is empty, it has no node.")
    if nodes > MOST_NODES:
        raise UsageError(f"{place}: the graph has {nodes} nodes; the sampler takes at most {MOST_NODES}.")
    if (wanted := nodes * _BYTES_A_NODE) > memory_bytes():
        raise UsageError(
            f"{place}: {nodes} nodes take {wanted >> 20} MiB of memory to convert; this machine has "
            f"{memory_bytes() >> 20} MiB. Convert the graph on a larger one."
        )
    return nodes


def check_at_most(place: str, found: int, nodes: int) -> None:
    """Refuse to read more entries than there are nodes.

    Raises:
        UsageError: the text has both numbers.
    """
    if found > nodes:
        raise UsageError(f"{place} holds {found} entries or more, for {nodes} nodes.")


def check_width(place: str, width: int) -> None:
    """Refuse features that are none, or too many for a model.

    Raises:
        UsageError: the text has the width and the limits.
    """
    if not 1 <= width <= MOST_FEATURES:
        raise UsageError(f"{place} has {width} features a node; it must have 1 to {MOST_FEATURES}.")


def check_length(place: str, found: int, nodes: int) -> None:
    """Refuse an array that does not hold one row for each node.

    Raises:
        UsageError: the text has both lengths.
    """
    if found != nodes:
        raise UsageError(f"{place} holds {found} rows for {nodes} nodes.")


def to_ids(place: str, array: Array) -> Ids:
    """Return integers of any kind as int64.

    Raises:
        UsageError: they are no integers, or do not fit int64.
    """
    if array.dtype.kind not in "iu":
        raise UsageError(f"{place} is of type {array.dtype}; node ids must be integers.")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise UsageError(f"{place} holds {array.max()}, which is no node.")
    return np.ascontiguousarray(array, np.int64)


def to_labels(place: str, array: Array, nodes: int) -> Ids:
    """Return the classes of all nodes as int64; unknown is NaN or -1.

    Raises:
        UsageError: they are no classes, not one for each node, or all unknown.
    """
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise UsageError(f"{place} has the shape {array.shape}; it must hold one class for each node.")
    check_length(place, len(array), nodes)
    if array.dtype.kind not in "iuf":
        raise UsageError(f"{place} is of type {array.dtype}; classes must be numbers.")
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), UNKNOWN, array)
    outside = ~((array >= UNKNOWN) & (array < MOST_CLASSES) & (array == np.floor(array)))
    if outside.any():
        node = int(np.flatnonzero(outside)[0])
        raise UsageError(f"{place}: node {node} has class {array[node]}; classes are 0 to {MOST_CLASSES - 1}, or -1.")
    labels = np.ascontiguousarray(array, np.int64)
    if (labels == UNKNOWN).all():
        raise UsageError(f"{place}: no node has a class.")
    return labels


def to_splits(splits: Mapping[str, Ids], labels: Ids, places: Mapping[str, str]) -> Splits:
    """Return the splits, ascending: every node exists, has a class, and is in one split once."""
    owner = np.zeros(len(labels), np.int8)
    checked = [_one_split(name, splits[name], labels, owner, places) for name in SPLITS]
    return Splits(*checked)


def _one_split(name: str, ids: Ids, labels: Ids, owner: Array, places: Mapping[str, str]) -> Ids:
    place = places[name]
    if ids.ndim != 1 or not len(ids):
        raise UsageError(f"{place}: the split {name} is empty. Give each of train, valid and test at least one node.")
    outside = ids[(ids < 0) | (ids >= len(labels))]
    if len(outside):
        raise UsageError(f"{place}: the split {name} names node {outside[0]}; there are nodes 0 to {len(labels) - 1}.")
    ids = np.sort(ids)
    if (again := ids[1:][ids[1:] == ids[:-1]]).size:
        raise UsageError(f"{place}: the split {name} names node {again[0]} twice.")
    if (taken := ids[owner[ids] > 0]).size:
        other = SPLITS[owner[taken[0]] - 1]
        raise UsageError(f"{place}: node {taken[0]} is in the splits {other} and {name}; splits must not overlap.")
    owner[ids] = SPLITS.index(name) + 1
    if (unknown := ids[labels[ids] == UNKNOWN]).size:
        raise UsageError(f"{place}: the split {name} names node {unknown[0]}, which has no class.")
    return ids


def check_indptr(place: str, indptr: Ids, edges: int) -> None:
    """Refuse rows that do not begin at 0, do not ascend, or do not end at the number of edges.

    Raises:
        UsageError: the text names the node and the numbers.
    """
    if len(indptr) < 2:
        raise UsageError(f"{place}: the graph is empty, indptr has {len(indptr)} entries.")
    if indptr[0] != 0 or indptr[-1] != edges:
        raise UsageError(f"{place}: indptr runs from {indptr[0]} to {indptr[-1]}; it must run from 0 to {edges}.")
    if (falls := np.flatnonzero(indptr[1:] < indptr[:-1])).size:
        node = int(falls[0])
        raise UsageError(f"{place}: indptr falls from {indptr[node]} to {indptr[node + 1]} at node {node}.")


def check_features(place: str, rows: Array, first: int) -> None:
    """Refuse rows with a number that is not finite; `first` is the node of the first row.

    Raises:
        UsageError: the text names the feature and the node.
    """
    if not (finite := np.isfinite(rows)).all():
        row, column = (int(each) for each in np.argwhere(~finite)[0])
        raise UsageError(
            f"{place}: feature {column} of node {first + row} is {rows[row, column]} in {rows.dtype}; it "
            "must be finite."
        )
