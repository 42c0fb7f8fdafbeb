"""Product of two bfloat16 matrices, the second one stored transposed as a linear layer's weight is."""

import torch
import torch.nn as nn

TITLE = "bfloat16 GEMM"
WORKLOADS = {
    "tile": {"role": "emulator", "M": 128, "N": 128, "K": 64},
    "ragged": {"role": "emulator", "M": 40, "N": 72, "K": 24},
    "two tiles": {"role": "emulator", "M": 136, "N": 264, "K": 72},
    "large_scale": {"role": "emulator", "M": 64, "N": 64, "K": 64, "values": "large_scale"},
    "medium": {"role": "correctness", "M": 512, "N": 384, "K": 1024},
}


class Model(nn.Module):
    """A times the transpose of B."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [M, K], B: [N, K], the result: [M, N]; bfloat16."""
        return torch.matmul(A, B.T)


M = 8192
N = 8192
K = 8192


def get_inputs():
    return [torch.randn(M, K).bfloat16(), torch.randn(N, K).bfloat16()]


def get_init_inputs():
    return []
