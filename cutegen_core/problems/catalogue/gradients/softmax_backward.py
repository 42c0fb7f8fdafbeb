"""Backward pass of softmax over rows, from its input."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Gradient of softmax over rows"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "dim": 1},
    "narrow": {"role": "emulator", "rows": 37, "dim": 5},
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile+1": {"role": "emulator", "rows": 3, "dim": 257},
    "large_mean": {"role": "emulator", "rows": 3, "dim": 333, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 129, "dim": 4099},
}


class Model(nn.Module):
    """Gradient of softmax over rows."""

    def forward(self, x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """x, dy: [rows, dim], float32; result: the gradient of x, the same."""
        return torch.func.vjp(lambda z: F.softmax(z, dim=-1), x)[1](dy)[0]


rows = 8192
dim = 4096


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(rows, dim)]


def get_init_inputs():
    return []
