"""Causal attention of one transformer layer, in float16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLE = "Causal attention"
WORKLOADS = {
    "one": {"role": "emulator", "batch": 1, "heads": 1, "length": 1, "width": 64},
    "ragged": {"role": "emulator", "batch": 1, "heads": 2, "length": 37, "width": 64},
    "tile": {"role": "emulator", "batch": 1, "heads": 1, "length": 64, "width": 64},
    "tile+1": {"role": "emulator", "batch": 1, "heads": 1, "length": 65, "width": 64},
    "medium": {"role": "correctness", "batch": 2, "heads": 4, "length": 333, "width": 64},
}


class Model(nn.Module):
    """softmax(Q K^T / sqrt(width)) V, each position with itself and those before."""

    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        """Q, K, V and the result: [batch, heads, length, width]; float16."""
        return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


batch = 8
heads = 16
length = 2048
width = 64


def get_inputs():
    return [torch.randn(batch, heads, length, width).half() for _ in range(3)]


def get_init_inputs():
    return []
