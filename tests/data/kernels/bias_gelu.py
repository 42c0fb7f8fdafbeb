"""GELU (tanh form) of a matrix plus a bias per column and a scale per row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "GELU (tanh form) of a matrix plus a bias per column and a scale per row"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 13, "N": 77},
    "tile": {"role": "emulator", "M": 16, "N": 128},
}


class Model(nn.Module):
    """GELU (tanh form) of a matrix plus a bias per column and a scale per row."""

    def forward(self, x: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """x and the result: [M, N]; bias: [N]; scale: [M]; float32."""
        return F.gelu(x * scale[:, None] + bias, approximate="tanh")


M = 8192
N = 8192


def get_inputs():
    return [torch.randn(M, N), torch.randn(N), torch.randn(M)]


def get_init_inputs():
    return []
