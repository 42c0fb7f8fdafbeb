"""A GraphSAGE layer over a sampled batch, in float32: relu(mean of the neighbours @ Wn + own row @ Wr + b).

The first rows of `h` are the targets themselves, as a sampler that lists the seeds first gives them.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "GraphSAGE layer (float32)"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "edges": 1, "others": 1, "width": 1, "hidden": 1},
    "ragged": {"role": "emulator", "rows": 37, "edges": 203, "others": 64, "width": 33, "hidden": 37},
    "tile": {"role": "emulator", "rows": 32, "edges": 160, "others": 64, "width": 64, "hidden": 64},
    "vectors": {"role": "emulator", "rows": 41, "edges": 131, "others": 48, "width": 104, "hidden": 40},
    "empty rows": {
        "role": "emulator", "rows": 53, "edges": 97, "others": 18, "width": 40, "hidden": 24, "empty_every": 3,
    },
    "power law": {"role": "emulator", "rows": 31, "edges": 301, "others": 33, "width": 24, "hidden": 16, "skew": 5},
    "hub": {"role": "emulator", "rows": 29, "edges": 331, "others": 98, "width": 36, "hidden": 20, "hub_share": 2},
    "one row": {"role": "emulator", "rows": 1, "edges": 257, "others": 60, "width": 17, "hidden": 9},
    "few edges": {"role": "emulator", "rows": 67, "edges": 9, "others": 30, "width": 8, "hidden": 32},
    "large_scale": {
        "role": "emulator", "rows": 23, "edges": 113, "others": 34, "width": 48, "hidden": 264,
        "values": "large_scale",
    },
    "large_mean": {
        "role": "emulator", "rows": 19, "edges": 83, "others": 12, "width": 21, "hidden": 16, "values": "large_mean",
    },
    "medium": {"role": "correctness", "rows": 1021, "edges": 5003, "others": 1980, "width": 100, "hidden": 12},
    "medium hub": {
        "role": "correctness", "rows": 509, "edges": 8009, "others": 1494, "width": 64, "hidden": 50,
        "hub_share": 2, "skew": 4, "empty_every": 5,
    },
    "layer 1": {"role": "benchmark"},
    "layer 2": {
        "role": "benchmark", "rows": 13500, "edges": 132000, "others": 97500, "width": 256, "hidden": 256,
    },
    "layer 1, power law": {"role": "benchmark", "others": 20_000, "skew": 4},
    "layer 1, empty rows": {"role": "benchmark", "empty_every": 4},
}  # fmt: skip


class Model(nn.Module):
    """relu(mean(h[idx]) @ neighbour + h[:rows] @ root + bias)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        scale = (2 * width) ** -0.5
        self.neighbour = nn.Parameter(torch.randn(width, hidden) * scale)
        self.root = nn.Parameter(torch.randn(width, hidden) * scale)
        self.bias = nn.Parameter(torch.randn(hidden))

    def forward(self, h: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
        """h: [sources, width], float32; idx: [edges], indptr: [rows + 1], int64; result: [rows, hidden]."""
        mean = F.embedding_bag(idx, h, indptr, mode="mean", include_last_offset=True)
        own = h[: indptr.shape[0] - 1]
        return torch.relu(torch.addmm(self.bias, own, self.root) + mean @ self.neighbour)


rows = 111_000
edges = 555_000
others = 275_000
"""Sources that are no target themselves."""
sources = rows + others
width = 128
skew = 1
"""1 draws sources evenly; from 2 on a few are drawn most often, as by a power law."""
empty_every = 1_000_003
"""Each so many rows, the last of them has no neighbours."""
hub_share = 1_000_003
"""One in so many edges leads to one row, the hub."""
hidden = 256


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
    return [torch.randn(sources, width), *neighbours()]


def get_init_inputs():
    return [width, hidden]
