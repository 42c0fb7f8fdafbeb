"""A residual added, then RMSNorm: a chain along rows that eager runs as six kernels."""

import torch
import torch.nn as nn

TITLE = "Residual add, then RMSNorm"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "dim": 1},
    "narrow": {"role": "emulator", "batch_size": 37, "dim": 5},
    "ragged": {"role": "emulator", "batch_size": 5, "dim": 1021},
    "tile": {"role": "emulator", "batch_size": 4, "dim": 1024},
    "tile+1": {"role": "emulator", "batch_size": 3, "dim": 1025},
    "large_mean": {"role": "emulator", "batch_size": 3, "dim": 333, "values": "large_mean"},
    "large_scale": {"role": "emulator", "batch_size": 3, "dim": 129, "values": "large_scale"},
    "medium": {"role": "correctness", "batch_size": 129, "dim": 4099},
}
TOLERANCE = {"float32": {"atol": 1e-5, "rtol": 1e-4}}


class Model(nn.Module):
    """Residual add, then RMSNorm."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """x, residual: [batch_size, dim], float32; result: the same."""
        total = x + residual
        return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


batch_size = 8192
dim = 4096
eps = 1e-6


def get_inputs():
    return [torch.randn(batch_size, dim), torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim, eps]
