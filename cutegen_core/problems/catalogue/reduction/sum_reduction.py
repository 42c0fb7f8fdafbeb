"""Sum over the middle dimension: neighbouring threads read neighbouring columns."""

import torch
import torch.nn as nn

TITLE = "Sum over the middle dimension"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "rows": 1, "dim": 1},
    "ragged": {"role": "emulator", "batch_size": 3, "rows": 67, "dim": 37},
    "tile": {"role": "emulator", "batch_size": 2, "rows": 64, "dim": 64},
    "tile+1": {"role": "emulator", "batch_size": 2, "rows": 65, "dim": 33},
    "tall": {"role": "emulator", "batch_size": 1, "rows": 1021, "dim": 3},
    "large_mean": {"role": "emulator", "batch_size": 2, "rows": 101, "dim": 13, "values": "large_mean"},
    "one_hot": {"role": "emulator", "batch_size": 2, "rows": 33, "dim": 17, "values": "one_hot"},
    "medium": {"role": "correctness", "batch_size": 5, "rows": 509, "dim": 257},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Sum over the middle dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, rows, dim], float32; result: [batch_size, 1, dim]."""
        return torch.sum(x, dim=1, keepdim=True)


batch_size = 32
rows = 4096
dim = 2048


def get_inputs():
    return [torch.randn(batch_size, rows, dim)]


def get_init_inputs():
    return []
