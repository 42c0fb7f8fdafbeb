"""Backward pass of RMSNorm over rows: the gradients of its input and its weight."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Gradients of RMSNorm over rows"
WORKLOADS = {
    "two": {"role": "emulator", "rows": 2, "dim": 3},
    "narrow": {"role": "emulator", "rows": 37, "dim": 5},
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile+1": {"role": "emulator", "rows": 3, "dim": 257},
    "large_mean": {"role": "emulator", "rows": 3, "dim": 333, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 129, "dim": 4099},
}


class Model(nn.Module):
    """Gradients of RMSNorm over rows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x, dy: [rows, dim], float32; results: the gradients of x, the same, and of weight, [dim]."""
        return torch.func.vjp(lambda z, w: F.rms_norm(z, (z.shape[-1],), w, 1e-6), x, self.weight)[1](dy)


rows = 8192
dim = 4096


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]
