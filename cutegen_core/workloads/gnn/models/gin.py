"""Graph isomorphism network (Xu et al., ICLR 2019): the sum of neighbours, as the mean times the row's length.

The sum is that of the neighbours that were drawn, so its scale follows the fanout. Layer norm takes the place of batch
norm, for the reason in `sage_residual.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cutegen_core.workloads.gnn.aggregate import Aggregate, TransposedTensors
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths


class Gin(SampledModel):
    """Each layer: MLP((1 + eps) * own + sum); relu and dropout between layers."""

    def __init__(self, widths: Widths, depth: int, aggregate: Aggregate, dropout: float) -> None:
        super().__init__(depth, aggregate, dropout)
        ends = widths.of_layers(depth)
        self.eps = nn.Parameter(torch.zeros(depth))
        self.networks = nn.ModuleList(_two_layers(a, widths.hidden, b) for a, b in ends)

    def layer(
        self, number: int, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor,
        transposed: TransposedTensors | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output."""
        sums = self.aggregate(sources, idx, indptr, transposed) * indptr.diff().to(sources.dtype)[:, None]
        out: Tensor = self.networks[number]((1 + self.eps[number]).to(own.dtype) * own + sums)
        return out if self.is_last(number) else self.drop(F.relu(out))


def _two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, out))
