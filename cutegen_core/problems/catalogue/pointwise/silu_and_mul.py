"""The gate of a language model's feed-forward block, in float16: silu of one half of a row times the other half."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "SiLU and multiply (float16)"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "dim": 1},
    "ragged": {"role": "emulator", "tokens": 7, "dim": 509},
    "tile": {"role": "emulator", "tokens": 8, "dim": 512},
    "tile+1": {"role": "emulator", "tokens": 3, "dim": 1025},
    "large_scale": {"role": "emulator", "tokens": 3, "dim": 333, "values": "large_scale"},
    "medium": {"role": "correctness", "tokens": 129, "dim": 2053},
}
TOLERANCE = {"float16": {"atol": 1e-3, "rtol": 2e-3}}


class Model(nn.Module):
    """silu(x[:, :dim]) * x[:, dim:]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [tokens, 2 * dim], float16; result: [tokens, dim]."""
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


tokens = 4096
dim = 8192


def get_inputs():
    return [torch.randn(tokens, 2 * dim, dtype=torch.float16)]


def get_init_inputs():
    return []
