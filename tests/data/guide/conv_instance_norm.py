"""A convolution, then an instance norm, then a division by a number."""

import torch
import torch.nn as nn

TITLE = "Convolution, instance norm, division"
WORKLOADS = {
    "ragged": {"role": "emulator", "batch_size": 2, "in_channels": 3, "out_channels": 5, "height": 9, "width": 11},
    "tile": {"role": "emulator", "batch_size": 1, "in_channels": 4, "out_channels": 8, "height": 10, "width": 10},
}


class Model(nn.Module):
    """A convolution, then an instance norm, then a division by a number."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divide_by: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.instance_norm = nn.InstanceNorm2d(out_channels)
        self.divide_by = divide_by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, in_channels, height, width], float32."""
        return self.instance_norm(self.conv(x)) / self.divide_by


batch_size = 128
in_channels = 64
out_channels = 128
height = 128
width = 128


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, 3, 2.0]
