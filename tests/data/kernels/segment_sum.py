"""Rows added up by segment."""

import torch
import torch.nn as nn

TITLE = "Rows added up by segment"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 203, "S": 17, "D": 33},
}


class Model(nn.Module):
    """Rows added up by segment."""

    def __init__(self, S: int) -> None:
        super().__init__()
        self.segments = S

    def forward(self, x: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
        """x: [N, D], float32; segment: [N], int64, below S; result: [S, D], float32."""
        return torch.zeros(self.segments, x.shape[1], dtype=x.dtype).index_add(0, segment, x)


N = 1 << 20
S = 4096
D = 128


def get_inputs():
    return [torch.randn(N, D), torch.randint(0, S, (N,))]


def get_init_inputs():
    return [S]
