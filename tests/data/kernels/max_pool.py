"""Largest value of 3 x 3 windows, stride 2, padding 1, and where it is."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Largest value of 3 x 3 windows, stride 2, padding 1, and where it is"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 2, "C": 3, "H": 15, "W": 18},
}


class Model(nn.Module):
    """Largest value of 3 x 3 windows, stride 2, padding 1, and where it is."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x: [N, C, H, W], float32; results: [N, C, OH, OW], float32, and indices into H * W, int64."""
        return F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)


N = 64
C = 64
H = 256
W = 256


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return []
