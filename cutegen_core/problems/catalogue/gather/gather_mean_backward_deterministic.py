"""The gradient of `gather_mean` for its table in a fixed order, in float32, by the transposed graph.

`users` and `starts` list for each source the rows whose neighbour it is, so that one thread can add up a source's
gradient without atomics. The order of a sum is the kernel's choice, but two runs must agree in every bit: a kernel that
declares itself not deterministic solves `gather_mean_backward`, not this.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Backward of gather and mean, deterministic (float32)"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "edges": 1, "sources": 1, "width": 1},
    "ragged": {"role": "emulator", "rows": 37, "edges": 203, "sources": 101, "width": 33},
    "tile": {"role": "emulator", "rows": 32, "edges": 160, "sources": 96, "width": 64},
    "vectors": {"role": "emulator", "rows": 41, "edges": 131, "sources": 89, "width": 104},
    "empty rows": {"role": "emulator", "rows": 53, "edges": 97, "sources": 71, "width": 40, "empty_every": 3},
    "power law": {"role": "emulator", "rows": 31, "edges": 301, "sources": 64, "width": 24, "skew": 5},
    "hub": {"role": "emulator", "rows": 29, "edges": 331, "sources": 127, "width": 36, "hub_share": 2},
    "one row": {"role": "emulator", "rows": 1, "edges": 257, "sources": 61, "width": 17},
    "few edges": {"role": "emulator", "rows": 67, "edges": 9, "sources": 43, "width": 8},
    "wide": {"role": "emulator", "rows": 7, "edges": 29, "sources": 19, "width": 264},
    "large_scale": {"role": "emulator", "rows": 23, "edges": 113, "sources": 57, "width": 48, "values": "large_scale"},
    "large_mean": {"role": "emulator", "rows": 19, "edges": 83, "sources": 31, "width": 21, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 1021, "edges": 5003, "sources": 3001, "width": 100},
    "medium hub": {"role": "correctness", "rows": 509, "edges": 8009, "sources": 2003, "width": 64, "hub_share": 2},
    "layer 1": {"role": "benchmark"},
    "layer 2": {"role": "benchmark", "rows": 13500, "edges": 132000, "sources": 111000, "width": 256},
    "layer 1, power law": {"role": "benchmark", "sources": 100_000, "skew": 4},
    "layer 1, empty rows and a hub": {"role": "benchmark", "empty_every": 4, "hub_share": 16},
}


class Model(nn.Module):
    """The sum over a source's rows of the row's gradient / its number of neighbours; 0 for a source without any."""

    def forward(
        self, grad: torch.Tensor, users: torch.Tensor, starts: torch.Tensor, indptr: torch.Tensor
    ) -> torch.Tensor:
        """grad: [rows, width], float32; users: [edges], starts: [sources + 1], indptr: [rows + 1], int64; result:
        [sources, width]."""
        degrees = (indptr[1:] - indptr[:-1]).clamp(min=1)
        shares = grad / degrees.unsqueeze(1)
        return F.embedding_bag(users, shares, starts, mode="sum", include_last_offset=True)


rows = 111_000
edges = 555_000
sources = 386_000
width = 128
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


def transposed():
    """users: of each source in turn, the rows whose neighbour it is, ascending; starts: where each source's begin.
    indptr: the rows' own pointer, of which the degrees are needed."""
    idx, indptr = neighbours()
    dealt = torch.searchsorted(indptr, torch.arange(edges), right=True) - 1
    uses = torch.zeros(sources + 1, dtype=torch.int64).index_add(0, idx + 1, torch.ones_like(idx))
    return dealt[torch.sort(idx, stable=True)[1]], uses.cumsum(0), indptr


def get_inputs():
    return [torch.randn(rows, width), *transposed()]


def get_init_inputs():
    return []
