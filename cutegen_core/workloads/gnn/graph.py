"""Define the graph that a run works on: rows of in-neighbours, features, labels and splits, all possibly mapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphFacts

Ids: TypeAlias = npt.NDArray[np.int64]
Array: TypeAlias = npt.NDArray[Any]

UNKNOWN = -1
"""The label of a node whose class is not known."""
MOST_NODES = 2**32 - 1
"""The sampler's hash map keeps node ids in 32 bits."""
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Splits:
    """Which nodes are trained on, validated on and tested on: ascending, and no node in two of them."""

    train: Ids
    valid: Ids
    test: Ids


@dataclass(frozen=True)
class GraphData:
    """A graph with what is known of its nodes. The arrays may be memory maps and are never written.

    Attributes:
        indptr: int64 [nodes + 1]; row v holds the in-neighbours of v, those whose features it aggregates.
        indices: int32 or int64 [edges], the rows one after another.
        features: float16 or float32 [nodes, width].
        labels: int64 [nodes], `UNKNOWN` where no class is known.
    """

    name: str
    indptr: Ids
    indices: Array
    features: Array
    labels: Ids
    classes: int
    splits: Splits

    def __post_init__(self) -> None:
        _check_types(self)
        _check_sizes(self)

    @property
    def nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    def facts(self) -> GraphFacts:
        """Return the sizes for a report."""
        train, valid, test = (len(part) for part in (self.splits.train, self.splits.valid, self.splits.test))
        return GraphFacts(self.name, self.nodes, self.edges, self.width, self.classes, train, valid, test)


_TYPES = {
    "indptr": (1, ("int64",)), "indices": (1, ("int32", "int64")), "features": (2, ("float16", "float32")),
    "labels": (1, ("int64",)),
}  # fmt: skip


def _check_types(graph: GraphData) -> None:
    for field, (dimensions, dtypes) in _TYPES.items():
        array = getattr(graph, field)
        if array.ndim != dimensions or str(array.dtype) not in dtypes:
            raise UsageError(
                f"graph {graph.name}: {field} has {array.ndim} dimensions of {array.dtype}; it must have {dimensions} "
                f"of {' or '.join(dtypes)}."
            )
        if not array.flags.c_contiguous:
            raise UsageError(f"graph {graph.name}: {field} is not contiguous. Copy it with numpy.ascontiguousarray.")


def _check_sizes(graph: GraphData) -> None:
    if not 0 < graph.nodes <= MOST_NODES:
        raise UsageError(f"graph {graph.name} has {graph.nodes} nodes; it must have 1 to {MOST_NODES}.")
    for field in ("features", "labels"):
        if len(getattr(graph, field)) != graph.nodes:
            raise UsageError(
                f"graph {graph.name}: {field} has {len(getattr(graph, field))} rows for {graph.nodes} nodes."
            )
    if graph.indptr[0] != 0 or graph.indptr[-1] != graph.edges:
        raise UsageError(
            f"graph {graph.name}: indptr runs from {graph.indptr[0]} to {graph.indptr[-1]}; it must run from 0 to "
            f"{graph.edges}, the length of indices."
        )
