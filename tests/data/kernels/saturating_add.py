"""int16 addition that saturates."""

import torch
import torch.nn as nn

TITLE = "int16 addition that saturates"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 2051},
}


class Model(nn.Module):
    """int16 addition that saturates."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y and the result: [N], int16."""
        return (x.int() + y.int()).clamp(-32768, 32767).to(torch.int16)


N = 1 << 28


def get_inputs():
    return [torch.randint(-32768, 32768, (N,)).to(torch.int16), torch.randint(-32768, 32768, (N,)).to(torch.int16)]


def get_init_inputs():
    return []
