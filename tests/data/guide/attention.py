"""Attention of float32 heads, one softmax over each row of scores."""

import torch
import torch.nn as nn

TITLE = "Attention in float32"
WORKLOADS = {
    "ragged": {"role": "emulator", "B": 1, "H": 2, "S": 45, "D": 32},
    "tile": {"role": "emulator", "B": 2, "H": 1, "S": 64, "D": 32},
}


class Model(nn.Module):
    """Attention of float32 heads, one softmax over each row of scores."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q, k, v and the result: [B, H, S, D], float32."""
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


B = 4
H = 16
S = 2048
D = 32


def get_inputs():
    return [torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D)]


def get_init_inputs():
    return []
