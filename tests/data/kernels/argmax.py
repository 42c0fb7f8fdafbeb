"""Index of each row's largest element."""

import torch
import torch.nn as nn

TITLE = "Index of each row's largest element"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 6, "N": 1013},
}


class Model(nn.Module):
    """Index of each row's largest element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [M, N], float32; result: [M], int64."""
        return torch.argmax(x, dim=1)


M = 4096
N = 65536


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
