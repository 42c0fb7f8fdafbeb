"""Rows divided by their Euclidean length."""

import torch
import torch.nn as nn

TITLE = "Rows divided by their Euclidean length"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 9, "N": 301},
    "tile": {"role": "emulator", "M": 4, "N": 512},
}


class Model(nn.Module):
    """Rows divided by their Euclidean length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [M, N], float32."""
        return x / x.pow(2).sum(dim=1, keepdim=True).sqrt().clamp_min(1e-12)


M = 65536
N = 2048


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
