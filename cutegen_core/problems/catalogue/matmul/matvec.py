"""Matrix times a column vector: memory-bound, a reduction per row."""

import torch
import torch.nn as nn

TITLE = "Matrix-vector product"
WORKLOADS = {
    "one": {"role": "emulator", "M": 1, "K": 1},
    "ragged": {"role": "emulator", "M": 13, "K": 1021},
    "tile": {"role": "emulator", "M": 8, "K": 1024},
    "tile+1": {"role": "emulator", "M": 9, "K": 1025},
    "tall": {"role": "emulator", "M": 257, "K": 17},
    "large_scale": {"role": "emulator", "M": 5, "K": 333, "values": "large_scale"},
    "sparse": {"role": "emulator", "M": 7, "K": 129, "values": "sparse"},
    "medium": {"role": "correctness", "M": 257, "K": 4099},
}
TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-4}}


class Model(nn.Module):
    """Matrix-vector product."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [M, K], B: [K, 1]; result: [M, 1], float32."""
        return torch.matmul(A, B)


M = 2048
K = 131072


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, 1)]


def get_init_inputs():
    return []
