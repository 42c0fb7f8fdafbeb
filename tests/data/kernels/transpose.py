"""A matrix transposed."""

import torch
import torch.nn as nn

TITLE = "A matrix transposed"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 45, "N": 67},
    "tile": {"role": "emulator", "M": 64, "N": 32},
}


class Model(nn.Module):
    """A matrix transposed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [M, N]; result: [N, M]; float32."""
        return x.T.contiguous()


M = 16384
N = 16384


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
