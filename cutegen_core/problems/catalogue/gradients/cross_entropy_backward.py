"""Gradient of the mean cross entropy by the logits."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Gradient of cross entropy"
WORKLOADS = {
    "one": {"role": "emulator", "rows": 1, "dim": 1},
    "narrow": {"role": "emulator", "rows": 37, "dim": 5},
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile+1": {"role": "emulator", "rows": 3, "dim": 257},
    "large_mean": {"role": "emulator", "rows": 3, "dim": 333, "values": "large_mean"},
    "medium": {"role": "correctness", "rows": 129, "dim": 4099},
}


class Model(nn.Module):
    """Gradient of cross entropy."""

    def forward(self, logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """logits: [rows, dim], float32; classes: [rows], int64; result: the gradient of logits, the same."""
        return torch.func.grad(lambda z: F.cross_entropy(z, classes))(logits)


rows = 8192
dim = 4096


def get_inputs():
    return [torch.randn(rows, dim), torch.randint(0, dim, (rows,))]


def get_init_inputs():
    return []
