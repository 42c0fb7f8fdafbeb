"""Rows of a table by index: the features of a sampled batch, in float16.

The benchmark is one batch of 386,000 nodes of width 128, from tables of one and of four million nodes.
"""

import torch
import torch.nn as nn

TITLE = "Gather of rows (float16)"
WORKLOADS = {
    "one": {"role": "emulator", "picked": 1, "sources": 1, "width": 1},
    "ragged": {"role": "emulator", "picked": 203, "sources": 101, "width": 33},
    "tile": {"role": "emulator", "picked": 128, "sources": 96, "width": 64},
    "vectors": {"role": "emulator", "picked": 131, "sources": 89, "width": 104},
    "narrow": {"role": "emulator", "picked": 301, "sources": 71, "width": 8},
    "wide": {"role": "emulator", "picked": 19, "sources": 23, "width": 520},
    "power law": {"role": "emulator", "picked": 301, "sources": 64, "width": 24, "skew": 5},
    "more than the table": {"role": "emulator", "picked": 257, "sources": 5, "width": 40},
    "large_scale": {"role": "emulator", "picked": 83, "sources": 31, "width": 48, "values": "large_scale"},
    "medium": {"role": "correctness", "picked": 5003, "sources": 3001, "width": 100},
    "medium vectors": {"role": "correctness", "picked": 2003, "sources": 4001, "width": 128, "skew": 3},
    "batch": {"role": "benchmark"},
    "batch of 4M nodes": {"role": "benchmark", "sources": 4_000_000},
    "batch, width 256": {"role": "benchmark", "width": 256},
    "batch, power law": {"role": "benchmark", "skew": 4},
}  # fmt: skip


class Model(nn.Module):
    """table[idx]."""

    def forward(self, table: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        """table: [sources, width], float16; idx: [picked], int64; result: [picked, width]."""
        return table.index_select(0, idx)


picked = 386_000
sources = 1_000_000
width = 128
skew = 1
"""1 draws sources evenly; from 2 on a few are drawn most often, as by a power law."""


def get_inputs():
    idx = (torch.rand(picked, dtype=torch.float64) ** skew * sources).long()
    return [torch.randn(sources, width).to(torch.float16), idx]


def get_init_inputs():
    return []
