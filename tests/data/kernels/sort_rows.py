"""Rows of 256 sorted upwards."""

import torch
import torch.nn as nn

TITLE = "Rows of 256 sorted upwards"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 5},
}


class Model(nn.Module):
    """Rows of 256 sorted upwards."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [M, 256], float32."""
        return torch.sort(x, dim=1).values


M = 1 << 18


def get_inputs():
    return [torch.randn(M, 256)]


def get_init_inputs():
    return []
