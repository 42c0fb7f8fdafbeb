"""For every element, how many positive ones its row has up to there."""

import torch
import torch.nn as nn

TITLE = "For every element, how many positive ones its row has up to there"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 7, "N": 331},
}


class Model(nn.Module):
    """For every element, how many positive ones its row has up to there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [M, N], float32; result: [M, N], int32."""
        return torch.cumsum((x > 0).int(), dim=1).to(torch.int32)


M = 16384
N = 4096


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
