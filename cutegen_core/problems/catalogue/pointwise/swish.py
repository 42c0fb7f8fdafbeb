"""Swish as its formula: two eager kernels that one can replace."""

import torch
import torch.nn as nn

TITLE = "Swish"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "dim": 1},
    "ragged": {"role": "emulator", "batch_size": 7, "dim": 1021},
    "tile": {"role": "emulator", "batch_size": 8, "dim": 1024},
    "tile+1": {"role": "emulator", "batch_size": 1, "dim": 4097},
    "large_scale": {"role": "emulator", "batch_size": 3, "dim": 333, "values": "large_scale"},
    "denormal": {"role": "emulator", "batch_size": 3, "dim": 333, "values": "denormal"},
    "medium": {"role": "correctness", "batch_size": 257, "dim": 4099},
}
TOLERANCE = {"float32": {"atol": 1e-6, "rtol": 1e-5}}


class Model(nn.Module):
    """x * sigmoid(x), elementwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [batch_size, dim], float32."""
        return x * torch.sigmoid(x)


batch_size = 4096
dim = 16384


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
