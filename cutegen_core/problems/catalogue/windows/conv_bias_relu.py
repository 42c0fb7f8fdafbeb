"""A 3 x 3 convolution and its ReLU: windows of a border of zeros, bias and activation in the product's epilogue."""

import torch
import torch.nn as nn

TITLE = "Convolution with bias and ReLU"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "channels": 1, "filters": 1, "height": 1, "width": 1},
    "ragged": {"role": "emulator", "batch_size": 2, "channels": 3, "filters": 5, "height": 9, "width": 7},
    "tile": {"role": "emulator", "batch_size": 1, "channels": 8, "filters": 64, "height": 8, "width": 8},
    "tile+1": {"role": "emulator", "batch_size": 1, "channels": 9, "filters": 65, "height": 13, "width": 5},
    "large_scale": {
        "role": "emulator",
        "batch_size": 2,
        "channels": 4,
        "filters": 6,
        "height": 5,
        "width": 11,
        "values": "large_scale",
    },
    "medium": {"role": "correctness", "batch_size": 2, "channels": 17, "filters": 70, "height": 19, "width": 21},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Convolution with bias and ReLU."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, channels, height, width]; result: [batch_size, filters, height, width], float32."""
        return torch.relu(self.conv(x))


batch_size = 32
channels = 64
filters = 128
height = 56
width = 56


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, filters]
