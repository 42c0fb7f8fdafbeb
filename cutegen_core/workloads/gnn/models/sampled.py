"""Define what every model shares: layers applied to a batch's hops, outermost first, or to all nodes of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from cutegen_core.workloads.gnn.aggregate import Aggregate, TransposedTensors


class Widths(NamedTuple):
    """Features per node: of the graph, of the hidden layers, and the number of classes."""

    features: int
    hidden: int
    classes: int

    def of_layers(self, count: int) -> list[tuple[int, int]]:
        """Return input and output width of each layer; the last layer gives the classes."""
        ends = [self.features, *[self.hidden] * (count - 1), self.classes]
        return list(pairwise(ends))


class HopTensors(NamedTuple):
    """A hop on the device: a CSR whose rows are the first `targets` nodes and whose entries are positions among the
    first `sources`; `transposed` where the batch has it."""

    idx: Tensor
    indptr: Tensor
    targets: int
    sources: int
    transposed: TransposedTensors | None = None


class SampledModel(nn.Module, ABC):
    """A network whose layers each read one hop.

    Attributes:
        aggregate: how neighbours are averaged; replaceable between steps.
        depth: number of layers.
        reads_by_entry: layers read a source only through `idx`, so their table may hold more rows than the sources.
    """

    reads_by_entry = True

    def __init__(self, depth: int, aggregate: Aggregate, dropout: float) -> None:
        super().__init__()
        self.depth = depth
        self.aggregate = aggregate
        self.dropout = dropout

    @abstractmethod
    def layer(
        self, number: int, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor,
        transposed: TransposedTensors | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the output of a layer for its targets.

        Args:
            sources: [m, width], which `idx` points into.
            own: [n, width], the targets' own rows.
            idx, indptr: CSR of n rows; transposed: the same edges by source, for an aggregation that reads them.
        """

    def forward(self, features: Tensor, hops: Sequence[HopTensors], nodes: Tensor | None = None) -> Tensor:
        """Return the classes' logits of the batch's seeds.

        Args:
            features: the rows of the batch's nodes; with `nodes`, of all nodes of the graph.
            nodes: where the batch's rows lie in `features`; only for models that read by entry.
        """
        state, rest = features, list(hops)
        if nodes is not None:  # the entries find their rows in the table itself: no copy of the sources' rows
            hop, *rest = rest
            own = features.index_select(0, nodes[: hop.targets])
            state = self.layer(0, features, own, nodes.index_select(0, hop.idx), hop.indptr)
        for number, hop in enumerate(rest, len(hops) - len(rest)):
            rows = (hop.idx, hop.indptr, hop.transposed)
            state = self.layer(number, state[: hop.sources], state[: hop.targets], *rows)
        return state

    def is_last(self, number: int) -> bool:
        """Return whether the layer gives the logits."""
        return number == self.depth - 1

    def drop(self, values: Tensor) -> Tensor:
        """Return the values with dropout, in training only."""
        return F.dropout(values, self.dropout, self.training)


def add_product(out: Tensor, values: Tensor, linear: nn.Module) -> Tensor:
    """Add what a linear layer without a bias makes of `values`, in place: no other memory is written."""
    weight = linear.get_parameter("weight")
    return out.addmm_(values.to(out.dtype), weight.to(out.dtype).t())
