"""Mean cross entropy of logits and class indices."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Mean cross entropy of logits and class indices"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 33, "C": 101},
}


class Model(nn.Module):
    """Mean cross entropy of logits and class indices."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """x: [N, C], float32; target: [N], int64; result: [1], float32."""
        return F.cross_entropy(x, target).reshape(1)


N = 32768
C = 4096


def get_inputs():
    return [torch.randn(N, C), torch.randint(0, C, (N,))]


def get_init_inputs():
    return []
