"""[B, S, H, D] to [B, H, S, D] in bfloat16."""

import torch
import torch.nn as nn

TITLE = "[B, S, H, D] to [B, H, S, D] in bfloat16"
WORKLOADS = {
    "ragged": {"role": "emulator", "B": 2, "S": 19, "H": 3, "D": 40},
}


class Model(nn.Module):
    """[B, S, H, D] to [B, H, S, D] in bfloat16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, S, H, D]; result: [B, H, S, D]; bfloat16."""
        return x.permute(0, 2, 1, 3).contiguous()


B = 16
S = 4096
H = 32
D = 128


def get_inputs():
    return [torch.randn(B, S, H, D).to(torch.bfloat16)]


def get_init_inputs():
    return []
