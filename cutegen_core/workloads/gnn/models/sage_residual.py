"""GraphSAGE with residual connections, as in SALIENT's comparison of architectures.

Layer norm takes the place of batch norm: it does not mix the nodes of a batch, so ranks need not exchange statistics.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from cutegen_core.workloads.gnn.aggregate import Aggregate, TransposedTensors
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths, add_product


class SageResidual(SampledModel):
    """Each layer: relu(norm(SAGE)) + W_skip * own; a linear head gives the classes."""

    def __init__(self, widths: Widths, depth: int, aggregate: Aggregate, dropout: float) -> None:
        super().__init__(depth, aggregate, dropout)
        inputs = [widths.features, *[widths.hidden] * (depth - 1)]
        self.neighbours = nn.ModuleList(nn.Linear(width, widths.hidden, bias=False) for width in inputs)
        self.own = nn.ModuleList(nn.Linear(width, widths.hidden) for width in inputs)
        self.skips = nn.ModuleList(nn.Linear(width, widths.hidden, bias=False) for width in inputs)
        self.norms = nn.ModuleList(nn.LayerNorm(widths.hidden) for _ in inputs)
        self.head = nn.Linear(widths.hidden, widths.classes)

    def layer(
        self, number: int, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor,
        transposed: TransposedTensors | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output."""
        means = self.aggregate(sources, idx, indptr, transposed)
        sums = add_product(self.own[number](own), means, self.neighbours[number])
        new = F.relu(self.norms[number](sums))
        out: Tensor = self.drop(new) + self.skips[number](own)
        return self.head(out) if self.is_last(number) else out
