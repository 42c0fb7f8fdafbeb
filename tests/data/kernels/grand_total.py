"""Sum of a vector."""

import torch
import torch.nn as nn

TITLE = "Sum of a vector"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 10007},
}
TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-4}}


class Model(nn.Module):
    """Sum of a vector."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N]; result: [1]; float32."""
        return x.sum().reshape(1)


N = 1 << 28


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
