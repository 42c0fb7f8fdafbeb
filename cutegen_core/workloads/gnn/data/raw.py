"""Define what a format's reader gives, not yet checked: streams of large parts, arrays of small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cutegen_core.workloads.gnn.data.rows import Edges
from cutegen_core.workloads.gnn.graph import Array, Ids

Chunks: TypeAlias = Callable[[], Iterator[Array]]
"""Begins a pass over the rows of an array."""


@dataclass(frozen=True)
class RawRows:
    """Rows of in-neighbours that a file holds ready."""

    indptr: Ids
    indices: Chunks
    edges: int


@dataclass(frozen=True)
class RawFeatures:
    """The features of all nodes in order."""

    rows: Chunks
    width: int
    dtype: np.dtype[np.float16] | np.dtype[np.float32]


@dataclass(frozen=True)
class RawGraph:
    """A graph as its files tell it.

    Attributes:
        edges: pairs, whose rows are still to be built, or the rows.
        undirected: pairs also count in the other direction.
        labels: float64 where NaN means unknown, or integers.
        splits: `train`, `valid` and `test`.
        places: the file, or the part of it, that each of edges, features, labels, train, valid and test comes from.
    """

    name: str
    nodes: int
    edges: Edges | RawRows
    undirected: bool
    features: RawFeatures
    labels: Array
    splits: dict[str, Ids]
    places: dict[str, str]
