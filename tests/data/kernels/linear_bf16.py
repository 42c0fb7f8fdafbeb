"""Matrix product a @ b.T of bfloat16 matrices, as a linear layer without bias: the kernel of gemm_bf16_wgmma.cu."""

import torch
import torch.nn as nn

TITLE = "Matrix product a @ b.T in bfloat16"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 70, "N": 88, "K": 96},
    "tile": {"role": "emulator", "M": 128, "N": 256, "K": 64},
    "tall": {"role": "emulator", "M": 259, "N": 16, "K": 200},
    "row": {"role": "emulator", "M": 1, "N": 8, "K": 8},
    "medium": {"role": "correctness", "M": 515, "N": 264, "K": 520},
}
TOLERANCE = {"bfloat16": {"atol": 2e-2, "rtol": 2e-2}}


class Model(nn.Module):
    """Matrix product a @ b.T of bfloat16 matrices."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a: [M, K], b: [N, K]; result: [M, N]; all bfloat16."""
        return torch.mm(a, b.T)


M = 4096
N = 4096
K = 4096


def get_inputs():
    return [torch.randn(M, K).to(torch.bfloat16), torch.randn(N, K).to(torch.bfloat16)]


def get_init_inputs():
    return []
