"""Per int32: a hash, the number of set bits, leading zeros, and the bits reversed."""

import torch
import torch.nn as nn

TITLE = "Per int32"
WORKLOADS = {
    "ragged": {"role": "emulator", "N": 1009},
}


class Model(nn.Module):
    """Per int32: a hash, the number of set bits, leading zeros, and the bits reversed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [N], int32; result: [4, N], int32."""
        wide = x.long() & 0xFFFFFFFF
        hashed = ((wide * 2654435761) & 0xFFFFFFFF) ^ (wide >> 15)
        bits = torch.stack([(wide >> i) & 1 for i in range(32)])
        places = torch.arange(32)[:, None]
        leading = 31 - torch.where(bits > 0, places, -1).amax(0)
        reverse = (bits << (31 - places)).sum(0)
        return torch.stack([self.signed(hashed), bits.sum(0), leading, self.signed(reverse)]).to(torch.int32)

    def signed(self, wide: torch.Tensor) -> torch.Tensor:
        """32 bits as a signed number."""
        return torch.where(wide >= 1 << 31, wide - (1 << 32), wide)


N = 1 << 26


def get_inputs():
    return [torch.randint(-(2**31), 2**31 - 1, (N,)).to(torch.int32)]


def get_init_inputs():
    return []
