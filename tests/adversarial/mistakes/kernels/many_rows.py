"""Rows of bytes made brighter, each by its own gain; more elements than 2^31."""

import torch
import torch.nn as nn

TITLE = "Rows of bytes made brighter, each by its own gain"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 7, "N": 301},
    "tile": {"role": "emulator", "M": 4, "N": 512},
}


class Model(nn.Module):
    """Rows of bytes made brighter, each by its own gain."""

    def forward(self, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        """x and the result: [M, N], uint8; gain: [M], int32."""
        return torch.clamp(x.int() + gain[:, None], 0, 255).to(torch.uint8)


M = 70000
N = 32768


def get_inputs():
    return [torch.randint(0, 256, (M, N)).to(torch.uint8), torch.randint(-64, 65, (M,)).to(torch.int32)]


def get_init_inputs():
    return []
