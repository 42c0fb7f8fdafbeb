"""Backward pass of LayerNorm over rows: the gradients of its input, its weight and its bias."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Gradients of LayerNorm over rows"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "dim": 1},
    "narrow": {"role": "emulator", "rows": 37, "dim": 5},
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile+1": {"role": "emulator", "rows": 3, "dim": 257},
    "large_mean": {"role": "emulator", "rows": 3, "dim": 333, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 129, "dim": 4099},
}


class Model(nn.Module):
    """Gradients of LayerNorm over rows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x, dy: [rows, dim], float32; results: the gradients of x, the same, and of weight and bias, [dim]."""
        norm = self.norm
        return torch.func.vjp(lambda z, w, b: F.layer_norm(z, (z.shape[-1],), w, b), x, norm.weight, norm.bias)[1](dy)


rows = 8192
dim = 4096


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]
