"""Graph attention network (Veličković et al., ICLR 2018): a softmax over each row's neighbours and the node itself.

Its weights differ by edge and head, so it does not use the seam of means.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cutegen_core.records.gnn_fields import ATTENTION_HEADS
from cutegen_core.workloads.gnn.aggregate import Aggregate, TransposedTensors, rows_of
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths

_SLOPE = 0.2


class Gat(SampledModel):
    """Attention with several heads, side by side, in the hidden layers; one head in the last."""

    reads_by_entry = False  # it projects every source

    def __init__(self, widths: Widths, depth: int, aggregate: Aggregate, dropout: float) -> None:
        super().__init__(depth, aggregate, dropout)
        ends = widths.of_layers(depth)
        heads = [ATTENTION_HEADS] * (depth - 1) + [1]
        self.attentions = nn.ModuleList(Attention(a, b, h) for (a, b), h in zip(ends, heads, strict=True))

    def layer(
        self, number: int, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor,
        transposed: TransposedTensors | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output."""
        out: Tensor = self.attentions[number](sources, own, idx, indptr)
        return out if self.is_last(number) else self.drop(F.elu(out))


class Attention(nn.Module):
    """One layer; scores and softmax are computed in float32."""

    def __init__(self, width: int, out: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, out, bias=False)
        self.of_source = nn.Parameter(torch.empty(heads, out // heads))
        self.of_target = nn.Parameter(torch.empty(heads, out // heads))
        self.bias = nn.Parameter(torch.zeros(out))
        nn.init.xavier_uniform_(self.of_source)
        nn.init.xavier_uniform_(self.of_target)

    def forward(self, sources: Tensor, own: Tensor, idx: Tensor, indptr: Tensor) -> Tensor:
        """Return [n, out] for n rows of neighbours."""
        values, mine = self._split(sources), self._split(own)
        toward = self._score(mine, self.of_target)
        of_edges = self._score(values, self.of_source).index_select(0, idx) + toward[rows_of(indptr, len(idx))]
        scores = F.leaky_relu(of_edges, _SLOPE)
        own_scores = F.leaky_relu(self._score(mine, self.of_source) + toward, _SLOPE)
        means = softmax_mean(values, mine, scores, own_scores, idx, indptr)
        return means.flatten(1).to(values.dtype) + self.bias.to(values.dtype)

    def _split(self, rows: Tensor) -> Tensor:
        projected: Tensor = self.project(rows)
        return projected.view(len(rows), self.heads, -1)

    def _score(self, values: Tensor, weights: Tensor) -> Tensor:
        return torch.sum(values.float() * weights, -1)


def softmax_mean(
    values: Tensor, mine: Tensor, scores: Tensor, own_scores: Tensor, idx: Tensor, indptr: Tensor
) -> Tensor:
    """Return the softmax-weighted mean of each row's neighbours and of the node itself, [n, H, F] in float32.

    Args:
        values: [m, H, F], which `idx` points into; mine: [n, H, F].
        scores: [E, H]; own_scores: [n, H].
    """
    rows = rows_of(indptr, len(idx))
    with torch.no_grad():  # a constant shift, which keeps exp in range
        highest = own_scores.scatter_reduce(0, rows[:, None].expand_as(scores), scores, "amax")
    weights, own_weights = (scores - highest[rows]).exp(), (own_scores - highest).exp()
    totals = own_weights.index_add(0, rows, weights)
    weighted = weights[..., None] * values.index_select(0, idx).float()
    sums = (own_weights[..., None] * mine.float()).index_add(0, rows, weighted)
    return sums / totals[..., None]
