"""LayerNorm over rows with weight and bias; its variance must survive a large mean."""

import torch
import torch.nn as nn

TITLE = "LayerNorm over rows"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "dim": 1},
    "narrow": {"role": "emulator", "batch_size": 37, "dim": 5},
    "ragged": {"role": "emulator", "batch_size": 5, "dim": 1021},
    "tile": {"role": "emulator", "batch_size": 4, "dim": 1024},
    "tile+1": {"role": "emulator", "batch_size": 3, "dim": 1025},
    "large_mean": {"role": "emulator", "batch_size": 3, "dim": 333, "values": "large_mean"},
    "sparse": {"role": "emulator", "batch_size": 3, "dim": 129, "values": "sparse"},
    "medium": {"role": "correctness", "batch_size": 129, "dim": 4099},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """LayerNorm over rows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, dim], float32; result: the same."""
        return self.norm(x)


batch_size = 8192
dim = 4096


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim]
