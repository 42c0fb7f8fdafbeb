"""Euclidean distance of rows in float64."""

import torch
import torch.nn as nn

TITLE = "Euclidean distance of rows in float64"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 17, "N": 203},
}


class Model(nn.Module):
    """Euclidean distance of rows in float64."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y: [M, N]; result: [M]; float64."""
        return (x - y).pow(2).sum(dim=1).sqrt()


M = 32768
N = 2048


def get_inputs():
    return [torch.randn(M, N, dtype=torch.float64), torch.randn(M, N, dtype=torch.float64)]


def get_init_inputs():
    return []
