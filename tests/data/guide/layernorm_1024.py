"""LayerNorm over rows of 1024, many of them: the shape of a transformer."""

import torch
import torch.nn as nn

TITLE = "LayerNorm over rows of 1024"
WORKLOADS = {
    "ragged": {"role": "emulator", "rows": 5, "dim": 1021},
    "tile": {"role": "emulator", "rows": 4, "dim": 1024},
}


class Model(nn.Module):
    """LayerNorm over rows of 1024, many of them."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, dim], float32; result: the same."""
        return self.norm(x)


rows = 65536
dim = 1024


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]
