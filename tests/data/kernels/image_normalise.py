"""uint8 pixels, channels last, to normalised float32, channels first."""

import torch
import torch.nn as nn

TITLE = "uint8 pixels, channels last, to normalised float32, channels first"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 2, "H": 13, "W": 19},
    "tile": {"role": "emulator", "N": 1, "H": 16, "W": 32},
}


class Model(nn.Module):
    """uint8 pixels, channels last, to normalised float32, channels first."""

    def forward(self, x: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
        """x: [N, H, W, 3], uint8; mean, std: [3], float32; result: [N, 3, H, W], float32."""
        return ((x.float() / 255.0 - mean) / std).permute(0, 3, 1, 2).contiguous()


N = 256
H = 512
W = 512


def get_inputs():
    return [torch.randint(0, 256, (N, H, W, 3)).to(torch.uint8), torch.rand(3), torch.rand(3) + 0.5]


def get_init_inputs():
    return []
