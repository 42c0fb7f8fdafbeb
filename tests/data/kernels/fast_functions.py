"""exp, log, sin, cos, a power, a quotient, 1/sqrt, tanh and 2^x of the same values."""

import torch
import torch.nn as nn

TITLE = "exp, log, sin, cos, a power, a quotient, 1/sqrt, tanh and 2^x of the same values"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 515},
}
TOLERANCE = {"float32": {"atol": 1e-3, "rtol": 1e-3, "error_multiple": 1e6}}
ALLOW = ("fast_math",)


class Model(nn.Module):
    """exp, log, sin, cos, a power, a quotient, 1/sqrt, tanh and 2^x of the same values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N], 0.1 to 3; result: [9, N]; float32."""
        several = [x.exp(), x.log(), x.sin(), x.cos(), x.pow(1.7), 1.5 / x, x.rsqrt(), x.tanh(), x.exp2()]
        return torch.stack(several)


N = 1 << 26


def get_inputs():
    return [torch.rand(N) * 2.9 + 0.1]


def get_init_inputs():
    return []
