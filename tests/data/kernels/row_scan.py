"""Running sums along rows."""

import torch
import torch.nn as nn

TITLE = "Running sums along rows"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 5, "N": 777},
    "tile": {"role": "emulator", "M": 3, "N": 1024},
}
TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-4}}


class Model(nn.Module):
    """Running sums along rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [M, N], float32."""
        return torch.cumsum(x, dim=1)


M = 16384
N = 4096


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
