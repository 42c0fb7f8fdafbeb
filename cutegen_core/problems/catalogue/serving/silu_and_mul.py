"""The gate of a language model's feed-forward block, in float16: silu of one half of a row times the other half.

Shapes, and tolerance (rtol 1e-3, atol 1e-4), are those of Astra (arXiv 2509.07506). Its second number is `dim`, the
width of the result: the floor of 47.9 us for [4096, 8192], at 4.2 TB/s, is 201 MB: 4096 rows of 2 * 8192 in and of 8192
out.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "SiLU and multiply (float16)"
EXISTING = "silu_and_mul.cu"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "dim": 1},
    "ragged": {"role": "emulator", "tokens": 7, "dim": 509},
    "tile": {"role": "emulator", "tokens": 8, "dim": 512},
    "tile+1": {"role": "emulator", "tokens": 3, "dim": 1025},
    "vectors": {"role": "emulator", "tokens": 13, "dim": 1048},
    "large_scale": {"role": "emulator", "tokens": 3, "dim": 333, "values": "large_scale"},
    "large_mean": {"role": "emulator", "tokens": 3, "dim": 40, "values": "large_mean"},
    "medium": {"role": "correctness", "tokens": 129, "dim": 2053},
    "medium vectors": {"role": "correctness", "tokens": 67, "dim": 2056},
    "16 x 4096": {"role": "benchmark", "tokens": 16, "dim": 4096},
    "32 x 5120": {"role": "benchmark", "tokens": 32, "dim": 5120},
    "32 x 8192": {"role": "benchmark", "tokens": 32, "dim": 8192},
    "16 x 12288": {"role": "benchmark", "tokens": 16, "dim": 12288},
    "64 x 8192": {"role": "benchmark", "tokens": 64, "dim": 8192},
    "4096 x 8192": {"role": "benchmark", "tokens": 4096, "dim": 8192},
}
TOLERANCE = {"float16": {"atol": 1e-4, "rtol": 1e-3}}
ALLOW = ("fast_math",)


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
