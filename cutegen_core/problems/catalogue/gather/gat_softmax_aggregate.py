"""The aggregation of a graph attention layer (GAT) over a sampled batch, in float32.

A row's neighbours are weighted by a softmax over them, for each head its own. The scores are sums of a source's and a
target's number, through a leaky ReLU.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "GAT: softmax over neighbours, and their weighted sum (float32)"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "edges": 1, "sources": 1, "heads": 1, "width": 1},
    "ragged": {"role": "emulator", "rows": 37, "edges": 203, "sources": 101, "heads": 3, "width": 33},
    "tile": {"role": "emulator", "rows": 32, "edges": 160, "sources": 96, "heads": 4, "width": 64},
    "vectors": {"role": "emulator", "rows": 41, "edges": 131, "sources": 89, "heads": 2, "width": 104},
    "empty rows": {
        "role": "emulator", "rows": 53, "edges": 97, "sources": 71, "heads": 5, "width": 40, "empty_every": 3,
    },
    "power law": {"role": "emulator", "rows": 31, "edges": 301, "sources": 64, "heads": 4, "width": 24, "skew": 5},
    "hub": {"role": "emulator", "rows": 29, "edges": 331, "sources": 127, "heads": 8, "width": 36, "hub_share": 2},
    "one row": {"role": "emulator", "rows": 1, "edges": 257, "sources": 61, "heads": 1, "width": 17},
    "few edges": {"role": "emulator", "rows": 67, "edges": 9, "sources": 43, "heads": 3, "width": 8},
    "large_scale": {
        "role": "emulator", "rows": 23, "edges": 113, "sources": 57, "heads": 2, "width": 48, "values": "large_scale",
    },
    "large_mean": {
        "role": "emulator", "rows": 19, "edges": 83, "sources": 31, "heads": 2, "width": 21, "values": "large_mean",
    },
    "medium": {"role": "correctness", "rows": 1021, "edges": 5003, "sources": 3001, "heads": 3, "width": 100},
    "medium hub": {
        "role": "correctness", "rows": 509, "edges": 8009, "sources": 2003, "heads": 4, "width": 64,
        "hub_share": 2, "skew": 4, "empty_every": 5,
    },
    "layer 1": {"role": "benchmark"},
    "layer 2": {
        "role": "benchmark", "rows": 13500, "edges": 132000, "sources": 111000, "heads": 4, "width": 64,
    },
    "layer 1, one head": {"role": "benchmark", "heads": 1, "width": 128},
    "layer 1, empty rows and power law": {
        "role": "benchmark", "sources": 100_000, "empty_every": 4, "skew": 4,
    },
}  # fmt: skip
ALLOW = ("finite_math",)


class Model(nn.Module):
    """out[r, k] = sum over neighbours j of softmax_j(leaky_relu(source[j, k] + target[r, k])) * h[j, k]."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(
        self, h: torch.Tensor, source: torch.Tensor, target: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor
    ) -> torch.Tensor:
        """h: [sources, heads, width], source: [sources, heads], target: [rows, heads], float32; idx: [edges], indptr:
        [rows + 1], int64; result: [rows, heads, width], zeros for a row without neighbours."""
        degrees = indptr[1:] - indptr[:-1]
        number = torch.arange(target.shape[0], device=h.device)
        rows = torch.repeat_interleave(number, degrees, output_size=idx.shape[0])
        score = F.leaky_relu(source.index_select(0, idx) + target.index_select(0, rows), self.slope)
        largest = torch.full_like(target, float("-inf"))
        largest = largest.scatter_reduce(0, rows.unsqueeze(1).expand_as(score), score, "amax")
        weight = torch.exp(score - largest.index_select(0, rows))
        total = torch.zeros_like(target).index_add(0, rows, weight)
        weight = weight / total.index_select(0, rows)
        zeros = h.new_zeros(target.shape[0], h.shape[1], h.shape[2])
        return zeros.index_add(0, rows, weight.unsqueeze(2) * h.index_select(0, idx))


rows = 111_000
edges = 555_000
sources = 386_000
heads = 4
width = 32
skew = 1
"""1 draws sources evenly; from 2 on a few are drawn most often, as by a power law."""
empty_every = 1_000_003
"""Each so many rows, the last of them has no neighbours."""
hub_share = 1_000_003
"""One in so many edges leads to one row, the hub."""


def neighbours():
    """idx: every source once while they last, as in a sampled batch, then drawn by `skew`.
    indptr: the edges dealt to the rows at random."""
    drawn = (torch.rand(edges, dtype=torch.float64) ** skew * sources).long()
    first = torch.randperm(sources)[:edges]
    drawn[: len(first)] = first
    filled = torch.tensor([row for row in range(rows) if row % empty_every != empty_every - 1])
    dealt = filled[torch.randint(len(filled), (edges,))]
    dealt[: edges // hub_share] = filled[len(filled) // 2]
    degrees = torch.zeros(rows + 1, dtype=torch.int64).index_add(0, dealt + 1, torch.ones_like(dealt))
    return drawn[torch.randperm(edges)], degrees.cumsum(0)


def get_inputs():
    h = torch.randn(sources, heads, width)
    return [h, torch.randn(sources, heads), torch.randn(rows, heads), *neighbours()]


def get_init_inputs():
    return [0.2]
