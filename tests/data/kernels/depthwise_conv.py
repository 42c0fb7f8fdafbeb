"""Depthwise 2D convolution, 5 x 5, stride 2, padding 2."""

import torch
import torch.nn as nn

TITLE = "Depthwise 2D convolution, 5 x 5, stride 2, padding 2"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 1, "C": 6, "H": 19, "W": 23},
}


class Model(nn.Module):
    """Depthwise 2D convolution, 5 x 5, stride 2, padding 2."""

    def __init__(self, C: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(C, C, 5, stride=2, padding=2, groups=C, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N, C, H, W]; result: [N, C, ceil(H / 2), ceil(W / 2)]; float32."""
        return self.conv(x)


N = 64
C = 128
H = 128
W = 128


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return [C]
