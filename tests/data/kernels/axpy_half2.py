"""2 x + y in float16."""

import torch
import torch.nn as nn

TITLE = "2 x + y in float16"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 3001},
    "tile": {"role": "emulator", "N": 4096},
}


class Model(nn.Module):
    """2 x + y in float16."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y and the result: [N], float16."""
        return (x.float() * 2.0 + y.float()).half()


N = 1 << 28


def get_inputs():
    return [torch.randn(N).half(), torch.randn(N).half()]


def get_init_inputs():
    return []
