"""Running sums of rows: each element needs all before it, so a row is scanned in parts that meet again."""

import torch
import torch.nn as nn

TITLE = "Running sums of rows"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "dim": 1},
    "narrow": {"role": "emulator", "batch_size": 37, "dim": 5},
    "ragged": {"role": "emulator", "batch_size": 5, "dim": 1021},
    "tile": {"role": "emulator", "batch_size": 4, "dim": 1024},
    "tile+1": {"role": "emulator", "batch_size": 3, "dim": 1025},
    "large_mean": {"role": "emulator", "batch_size": 3, "dim": 333, "values": "large_mean"},
    "large_scale": {"role": "emulator", "batch_size": 3, "dim": 129, "values": "large_scale"},
    "medium": {"role": "correctness", "batch_size": 65, "dim": 4099},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4, "error_multiple": 64.0}}


class Model(nn.Module):
    """Running sums of rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, dim], float32; result: the same."""
        return torch.cumsum(x, dim=1)


batch_size = 4096
dim = 16384


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
