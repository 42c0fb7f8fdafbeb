"""LeakyReLU of a matrix; the slope is a scalar of the contract."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "LeakyReLU"
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
    """LeakyReLU, elementwise."""

    def __init__(self, negative_slope: float) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [batch_size, dim], float32."""
        return F.leaky_relu(x, negative_slope=self.negative_slope)


batch_size = 4096
dim = 16384
negative_slope = 0.01


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [negative_slope]
