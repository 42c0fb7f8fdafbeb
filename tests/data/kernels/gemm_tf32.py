"""Matrix product A @ B.T of float32 inputs, TF32 allowed."""

import torch
import torch.nn as nn

TITLE = "Matrix product A @ B.T of float32 inputs, TF32 allowed"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 70, "N": 90, "K": 96},
    "tile": {"role": "emulator", "M": 128, "N": 64, "K": 64},
}
TOLERANCE = {"float32": {"atol": 3e-2, "rtol": 1e-2, "error_multiple": 1e6}}
ALLOW = ("tf32",)


class Model(nn.Module):
    """Matrix product A @ B.T of float32 inputs, TF32 allowed."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [M, K]; B: [N, K]; result: [M, N]; float32."""
        return A @ B.T


M = 4096
N = 4096
K = 4096


def get_inputs():
    return [torch.randn(M, K), torch.randn(N, K)]


def get_init_inputs():
    return []
