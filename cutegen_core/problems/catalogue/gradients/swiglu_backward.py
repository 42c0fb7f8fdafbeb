"""Backward pass of SwiGLU, silu(gate) * up."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Gradients of SwiGLU"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "dim": 1},
    "narrow": {"role": "emulator", "rows": 37, "dim": 5},
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile+1": {"role": "emulator", "rows": 3, "dim": 257},
    "large_mean": {"role": "emulator", "rows": 3, "dim": 333, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 129, "dim": 4099},
}


class Model(nn.Module):
    """Gradients of SwiGLU."""

    def forward(self, gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """gate, up, dy: [rows, dim], float32; results: the gradients of gate and up, the same."""
        return torch.func.vjp(lambda a, b: F.silu(a) * b, gate, up)[1](dy)


rows = 8192
dim = 4096


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(rows, dim), torch.randn(rows, dim)]


def get_init_inputs():
    return []
