"""Gating of a mixture of experts: each token's k most probable experts, and their probabilities made to sum to one."""

import torch
import torch.nn as nn

TITLE = "Top-k softmax gating, renormalised (float32)"
EXISTING = "topk_softmax.cu"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "experts": 1, "k": 1},
    "few": {"role": "emulator", "tokens": 37, "experts": 8, "k": 2},
    "all": {"role": "emulator", "tokens": 5, "experts": 8, "k": 8},
    "ragged": {"role": "emulator", "tokens": 7, "experts": 61, "k": 6},
    "tile": {"role": "emulator", "tokens": 16, "experts": 64, "k": 6},
    "warps": {"role": "emulator", "tokens": 9, "experts": 128, "k": 8},
    "wide": {"role": "emulator", "tokens": 3, "experts": 257, "k": 8},
    "every expert equal": {"role": "emulator", "tokens": 7, "experts": 96, "k": 8, "values": "constant"},
    "many ties": {"role": "emulator", "tokens": 6, "experts": 128, "k": 8, "values": "sparse"},
    "zeros of both signs": {"role": "emulator", "tokens": 8, "experts": 64, "k": 8, "values": "signed_zeros"},
    "masked experts": {"role": "emulator", "tokens": 9, "experts": 64, "k": 6, "values": "infinite"},
    "not a number": {"role": "emulator", "tokens": 7, "experts": 128, "k": 8, "values": "nan"},
    "one certain": {"role": "emulator", "tokens": 5, "experts": 130, "k": 4, "values": "large_scale"},
    "medium": {"role": "correctness", "tokens": 515, "experts": 256, "k": 8},
    "benchmark": {"role": "benchmark"},
    "decode": {"role": "benchmark", "tokens": 64, "experts": 128},
    "128 experts": {"role": "benchmark", "tokens": 16384, "experts": 128},
    "64 experts, 6": {"role": "benchmark", "tokens": 32768, "experts": 64, "k": 6},
    "8 experts, 2": {"role": "benchmark", "tokens": 65536, "experts": 8, "k": 2},
}
TOLERANCE = {"float32": {"atol": 1e-6, "rtol": 1e-5}}
COMPULSORY = {"bytes": "tokens * (4 * experts + 8 * k)"}


class Model(nn.Module):
    """The k largest logits of each row, NaN above all others; of equal ones the lower index comes first."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """logits: [tokens, experts], float32; results: weights [tokens, k], float32, falling; ids [tokens, k], int32.

        Softmax keeps the order, so the logits are sorted: probabilities that round to the same number are no ties.
        """
        ids = torch.sort(logits, dim=-1, descending=True, stable=True)[1].narrow(-1, 0, self.k)
        weights = torch.softmax(logits, dim=-1).gather(-1, ids)
        return weights / weights.sum(dim=-1, keepdim=True), ids.to(torch.int32)


tokens = 65536
experts = 256
k = 8


def get_inputs():
    return [torch.randn(tokens, experts)]


def get_init_inputs():
    return [k]
