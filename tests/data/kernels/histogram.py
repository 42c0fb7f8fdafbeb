"""How often each of 64 values occurs."""

import torch
import torch.nn as nn

TITLE = "How often each of 64 values occurs"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 9001},
}


class Model(nn.Module):
    """How often each of 64 values occurs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N], int32, 0 to 63; result: [64], int32."""
        return torch.zeros(64, dtype=torch.int32).index_add(0, x.long(), torch.ones_like(x))


N = 1 << 28


def get_inputs():
    return [torch.randint(0, 64, (N,)).to(torch.int32)]


def get_init_inputs():
    return []
