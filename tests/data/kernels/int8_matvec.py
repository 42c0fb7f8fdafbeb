"""Matrix times vector in int8, sums in int32."""

import torch
import torch.nn as nn

TITLE = "Matrix times vector in int8, sums in int32"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 37, "K": 260},
    "tile": {"role": "emulator", "M": 8, "K": 512},
}


class Model(nn.Module):
    """Matrix times vector in int8, sums in int32."""

    def forward(self, A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """A: [M, K], int8; x: [K], int8; result: [M], int32."""
        return (A.int() * x.int()).sum(dim=1).to(torch.int32)


M = 16384
K = 16384


def get_inputs():
    return [torch.randint(-128, 128, (M, K)).to(torch.int8), torch.randint(-128, 128, (K,)).to(torch.int8)]


def get_init_inputs():
    return []
