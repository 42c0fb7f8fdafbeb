"""Matrix product A @ B.T in float32."""

import torch
import torch.nn as nn

TITLE = "Matrix product A @ B.T in float32"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 75, "N": 90, "K": 100},
    "tile": {"role": "emulator", "M": 64, "N": 64, "K": 256},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Matrix product A @ B.T in float32."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [M, K]; B: [N, K]; result: [M, N]; float32."""
        return A @ B.T


M = 2048
N = 2048
K = 8192


def get_inputs():
    return [torch.randn(M, K), torch.randn(N, K)]


def get_init_inputs():
    return []
