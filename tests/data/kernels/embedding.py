"""Rows of a table picked by index."""

import torch
import torch.nn as nn

TITLE = "Rows of a table picked by index"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 61, "V": 97, "D": 36},
}


class Model(nn.Module):
    """Rows of a table picked by index."""

    def forward(self, index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """index: [N], int64; table: [V, D]; result: [N, D]; float32."""
        return table[index]


N = 1 << 17
V = 50000
D = 1024


def get_inputs():
    return [torch.randint(0, V, (N,)), torch.randn(V, D)]


def get_init_inputs():
    return []
