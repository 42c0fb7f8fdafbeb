"""Running sum of one long vector of int32."""

import torch
import torch.nn as nn

TITLE = "Running sum of one long vector of int32"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 5003},
}


class Model(nn.Module):
    """Running sum of one long vector of int32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [N], int32."""
        return torch.cumsum(x, dim=0).to(torch.int32)


N = 1 << 28


def get_inputs():
    return [torch.randint(-100, 100, (N,)).to(torch.int32)]


def get_init_inputs():
    return []
