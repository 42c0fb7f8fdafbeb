"""Convolution of a ResNet block: 3 by 3, stride 1, padding 1, in float32."""

import torch
import torch.nn as nn

TITLE = "3x3 convolution"
WORKLOADS = {
    "one": {"role": "emulator", "batch": 1, "channels": 1, "filters": 1, "side": 3},
    "ragged": {"role": "emulator", "batch": 2, "channels": 5, "filters": 7, "side": 11},
    "tile": {"role": "emulator", "batch": 1, "channels": 16, "filters": 32, "side": 8},
    "large_scale": {"role": "emulator", "batch": 1, "channels": 4, "filters": 8, "side": 9, "values": "large_scale"},
    "medium": {"role": "correctness", "batch": 4, "channels": 32, "filters": 48, "side": 28},
}


class Model(nn.Module):
    """Convolution without bias."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch, channels, side, side], the result: [batch, filters, side, side]; float32."""
        return self.conv(x)


batch = 32
channels = 64
filters = 128
side = 56


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels, filters]
