"""Matrix product A @ B.T of bfloat16 inputs, summed and returned in float32."""

import torch
import torch.nn as nn

TITLE = "Matrix product A @ B.T of bfloat16 inputs, summed and returned in float32"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 70, "N": 90, "K": 96},
    "tile": {"role": "emulator", "M": 128, "N": 64, "K": 128},
}
TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-3}}


class Model(nn.Module):
    """Matrix product A @ B.T of bfloat16 inputs, summed and returned in float32."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [M, K]; B: [N, K]; bfloat16; result: [M, N], float32."""
        return A.float() @ B.float().T


M = 4096
N = 4096
K = 4096


def get_inputs():
    return [torch.randn(M, K).to(torch.bfloat16), torch.randn(N, K).to(torch.bfloat16)]


def get_init_inputs():
    return []
