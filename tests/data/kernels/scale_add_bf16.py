"""x * 1.5 + y in bfloat16, computed in float32."""

import torch
import torch.nn as nn

TITLE = "x * 1.5 + y in bfloat16, computed in float32"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 4099},
    "tile": {"role": "emulator", "N": 4096},
}


class Model(nn.Module):
    """x * 1.5 + y in bfloat16, computed in float32."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y and the result: [N], bfloat16."""
        return (x.float() * 1.5 + y.float()).to(torch.bfloat16)


N = 1 << 28


def get_inputs():
    return [torch.randn(N).to(torch.bfloat16), torch.randn(N).to(torch.bfloat16)]


def get_init_inputs():
    return []
