"""Rotary position embedding, halves of a head rotated, bfloat16."""

import torch
import torch.nn as nn

TITLE = "Rotary position embedding, halves of a head rotated, bfloat16"
WORKLOADS = {
    "ragged": {"role": "emulator", "S": 21, "H": 3, "D": 32},
}


class Model(nn.Module):
    """Rotary position embedding, halves of a head rotated, bfloat16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: [S, H, D], bfloat16."""
        half = x.shape[-1] // 2
        rate = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[0], dtype=torch.float32)[:, None, None] * rate
        first, second = x[..., :half].float(), x[..., half:].float()
        turned = [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()]
        return torch.cat(turned, dim=-1).to(torch.bfloat16)


S = 8192
H = 32
D = 128


def get_inputs():
    return [torch.randn(S, H, D).to(torch.bfloat16)]


def get_init_inputs():
    return []
