"""GraphSAGE (Hamilton et al., NeurIPS 2017) with the mean of the neighbours."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from cutegen_core.workloads.gnn.aggregate import Aggregate, TransposedTensors
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths, add_product


class Sage(SampledModel):
    """Each layer: W_neighbours * mean + W_own * own + b, then relu and dropout but for the last."""

    def __init__(self, widths: Widths, depth: int, aggregate: Aggregate, dropout: float) -> None:
        super().__init__(depth, aggregate, dropout)
        ends = widths.of_layers(depth)
        self.neighbours = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in ends)
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in ends)

    def layer(
        self, number: int, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor,
        transposed: TransposedTensors | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output."""
        means = self.aggregate(sources, idx, indptr, transposed)
        out = add_product(self.own[number](own), means, self.neighbours[number])
        return out if self.is_last(number) else self.drop(F.relu(out, inplace=True))
