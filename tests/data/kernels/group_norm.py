"""Group normalisation over 4 groups with weight and bias per channel."""

import torch
import torch.nn as nn

TITLE = "Group normalisation over 4 groups with weight and bias per channel"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 3, "C": 12, "L": 43},
    "streaming": {"role": "emulator", "N": 1, "C": 4, "L": 59001},
}


class Model(nn.Module):
    """Group normalisation over 4 groups with weight and bias per channel."""

    def __init__(self, C: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, C)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [N, C, L], float32."""
        return self.norm(x)


N = 64
C = 256
L = 16384


def get_inputs():
    return [torch.randn(N, C, L)]


def get_init_inputs():
    return [C]
