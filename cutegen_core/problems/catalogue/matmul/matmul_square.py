"""Square matrix product in float32: compute-bound, SIMT unless TF32 is allowed."""

import torch
import torch.nn as nn

TITLE = "Square matrix product"
WORKLOADS = {
    "one": {"role": "emulator", "N": 1},
    "ragged": {"role": "emulator", "N": 53},
    "tile": {"role": "emulator", "N": 64},
    "tile+1": {"role": "emulator", "N": 65},
    "prime": {"role": "emulator", "N": 97},
    "large_scale": {"role": "emulator", "N": 31, "values": "large_scale"},
    "one_hot": {"role": "emulator", "N": 33, "values": "one_hot"},
    "medium": {"role": "correctness", "N": 509},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Square matrix product."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A, B and the result: [N, N], float32."""
        return torch.matmul(A, B)


N = 4096


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
