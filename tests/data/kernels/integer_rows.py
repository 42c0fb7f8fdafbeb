"""Sum, largest and exclusive-or of rows of int32."""

import torch
import torch.nn as nn

TITLE = "Sum, largest and exclusive-or of rows of int32"
WORKLOADS = {
    "ragged": {"role": "emulator", "M": 10, "N": 219},
}


class Model(nn.Module):
    """Sum, largest and exclusive-or of rows of int32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [M, N]; result: [3, M]; int32."""
        bits = torch.stack([((x >> i) & 1).sum(dim=1) & 1 for i in range(32)])
        parity = (bits[:31] << torch.arange(31)[:, None]).sum(0) - (bits[31] << 31)
        return torch.stack([x.sum(dim=1), x.amax(dim=1).long(), parity]).to(torch.int32)


M = 32768
N = 4096


def get_inputs():
    return [torch.randint(-100000, 100000, (M, N)).to(torch.int32)]


def get_init_inputs():
    return []
