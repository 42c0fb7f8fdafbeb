"""2D convolution, 3 x 3, stride 1, padding 1, with bias."""

import torch
import torch.nn as nn

TITLE = "2D convolution, 3 x 3, stride 1, padding 1, with bias"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 2, "C": 5, "K": 7, "H": 13, "W": 17},
    "tile": {"role": "emulator", "N": 1, "C": 8, "K": 8, "H": 16, "W": 16},
}


class Model(nn.Module):
    """2D convolution, 3 x 3, stride 1, padding 1, with bias."""

    def __init__(self, C: int, K: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(C, K, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N, C, H, W]; result: [N, K, H, W]; float32."""
        return self.conv(x)


N = 32
C = 64
K = 64
H = 128
W = 128


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return [C, K]
