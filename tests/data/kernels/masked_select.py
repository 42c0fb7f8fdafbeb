"""Where a mask says so, x; elsewhere a value per row."""

import torch
import torch.nn as nn

TITLE = "Where a mask says so, x; elsewhere a value per row"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 11, "N": 93},
}


class Model(nn.Module):
    """Where a mask says so, x; elsewhere a value per row."""

    def forward(self, mask: torch.Tensor, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """mask: [M, N], bool; x: [M, N], int64; other: [M], int64; result: [M, N], int64."""
        return torch.where(mask, x, other[:, None])


M = 8192
N = 4096


def get_inputs():
    return [torch.rand(M, N) < 0.3, torch.randint(-(2**62), 2**62, (M, N)), torch.randint(0, 100, (M,))]


def get_init_inputs():
    return []
