"""Matrix product with A stored [K, M]: its tiles are read along the other axis."""

import torch
import torch.nn as nn

TITLE = "Matrix product with A transposed"
WORKLOADS = {
    "one": {"role": "emulator", "M": 1, "K": 1, "N": 1},
    "ragged": {"role": "emulator", "M": 37, "K": 53, "N": 41},
    "tile": {"role": "emulator", "M": 64, "K": 32, "N": 64},
    "tile+1": {"role": "emulator", "M": 65, "K": 33, "N": 65},
    "thin": {"role": "emulator", "M": 3, "K": 130, "N": 97},
    "large_scale": {"role": "emulator", "M": 19, "K": 47, "N": 23, "values": "large_scale"},
    "sparse": {"role": "emulator", "M": 33, "K": 40, "N": 17, "values": "sparse"},
    "medium": {"role": "correctness", "M": 257, "K": 509, "N": 263},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Matrix product with A transposed."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [K, M], B: [K, N]; result: [M, N], float32."""
        return torch.matmul(A.T, B)


M = 2048
K = 8192
N = 4096


def get_inputs():
    return [torch.randn(K, M), torch.randn(K, N)]


def get_init_inputs():
    return []
