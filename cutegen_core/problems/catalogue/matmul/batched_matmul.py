"""One matrix product per batch: the batch is one more grid dimension."""

import torch
import torch.nn as nn

TITLE = "Batched matrix product"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "M": 1, "K": 1, "N": 1},
    "ragged": {"role": "emulator", "batch_size": 3, "M": 37, "K": 29, "N": 41},
    "tile": {"role": "emulator", "batch_size": 2, "M": 64, "K": 32, "N": 64},
    "tile+1": {"role": "emulator", "batch_size": 2, "M": 33, "K": 17, "N": 65},
    "many": {"role": "emulator", "batch_size": 17, "M": 5, "K": 7, "N": 3},
    "large_scale": {"role": "emulator", "batch_size": 2, "M": 19, "K": 23, "N": 17, "values": "large_scale"},
    "medium": {"role": "correctness", "batch_size": 5, "M": 129, "K": 257, "N": 131},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Batched matrix product."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A: [batch_size, M, K], B: [batch_size, K, N]; result: [batch_size, M, N], float32."""
        return torch.bmm(A, B)


batch_size = 128
M = 512
K = 1024
N = 2048


def get_inputs():
    return [torch.randn(batch_size, M, K), torch.randn(batch_size, K, N)]


def get_init_inputs():
    return []
