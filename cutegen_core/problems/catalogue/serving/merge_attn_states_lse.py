"""Two partial attention results merged by their log-sum-exp (LSE), as where a long context is attended to in two parts.

An infinite LSE, of either sign, means that its part attended to nothing: its weight is 0. With both parts empty the
result is 0 and its LSE minus infinity. Shapes [tokens, heads, head size] and tolerances are those of Astra
(arXiv 2509.07506): rtol 1e-2 and atol 5e-3 in float16, in its order of the two; 1e-6 for the LSE in float32.
"""

import torch
import torch.nn as nn

TITLE = "Merge of two attention states (float16)"
EXISTING = "merge_attn_states_lse.cu"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "heads": 1, "dim": 1},
    "ragged": {"role": "emulator", "tokens": 7, "heads": 3, "dim": 77},
    "tile": {"role": "emulator", "tokens": 4, "heads": 8, "dim": 128},
    "tile+1": {"role": "emulator", "tokens": 5, "heads": 5, "dim": 129},
    "vectors": {"role": "emulator", "tokens": 11, "heads": 5, "dim": 72},
    "wide": {"role": "emulator", "tokens": 3, "heads": 7, "dim": 264},
    "both empty": {"role": "emulator", "tokens": 6, "heads": 7, "dim": 24, "both_empty_every": 4},
    "both empty, ragged": {"role": "emulator", "tokens": 5, "heads": 3, "dim": 19, "both_empty_every": 3},
    "many heads": {"role": "emulator", "tokens": 2, "heads": 131, "dim": 8},
    "large_scale": {"role": "emulator", "tokens": 3, "heads": 2, "dim": 40, "values": "large_scale"},
    "large_mean": {"role": "emulator", "tokens": 3, "heads": 2, "dim": 33, "values": "large_mean"},
    "huge": {"role": "emulator", "tokens": 3, "heads": 5, "dim": 24, "values": "huge"},
    "medium": {"role": "correctness", "tokens": 61, "heads": 17, "dim": 129},
    "medium vectors": {"role": "correctness", "tokens": 67, "heads": 13, "dim": 256},
    "512 x 32 x 256": {"role": "benchmark", "tokens": 512, "heads": 32, "dim": 256},
    "512 x 40 x 128": {"role": "benchmark", "tokens": 512, "heads": 40, "dim": 128},
    "768 x 32 x 256": {"role": "benchmark", "tokens": 768, "heads": 32, "dim": 256},
    "768 x 40 x 128": {"role": "benchmark", "tokens": 768, "heads": 40, "dim": 128},
    "512 x 64 x 128": {"role": "benchmark", "tokens": 512, "heads": 64, "dim": 128},
}
TOLERANCE = {"float16": {"atol": 5e-3, "rtol": 1e-2}, "float32": {"atol": 1e-6, "rtol": 1e-6}}


class Model(nn.Module):
    """The weighted sum of both results, and the LSE of both parts together."""

    def forward(
        self, out_a: torch.Tensor, lse_a: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """out_a, out_b: [tokens, heads, dim], float16; lse_a, lse_b: [tokens, heads], float32; results: likewise."""
        empty = float("-inf")
        lse_a = torch.where(torch.isinf(lse_a), empty, lse_a)
        lse_b = torch.where(torch.isinf(lse_b), empty, lse_b)
        largest = torch.maximum(lse_a, lse_b)
        base = torch.where(largest == empty, 0.0, largest)
        part_a, part_b = torch.exp(lse_a - base), torch.exp(lse_b - base)
        total = part_a + part_b
        divisor = torch.where(total == 0.0, 1.0, total)
        weight_a, weight_b = (part_a / divisor).unsqueeze(-1), (part_b / divisor).unsqueeze(-1)
        merged = out_a * weight_a + out_b * weight_b
        return merged.to(out_a.dtype), torch.log(total) + base


tokens = 512
heads = 32
dim = 256
both_empty_every = 1_000_003
"""Of the heads of all tokens, how many lie between those with both parts empty; own values have none, since minus
infinity for a result says nothing about the arithmetic."""


def get_inputs():
    out_a, out_b = (torch.randn(tokens, heads, dim, dtype=torch.float16) for _ in range(2))
    lse_a, lse_b = torch.randn(tokens, heads) * 3, torch.randn(tokens, heads) * 3
    lse_a.view(-1)[1::6] = float("-inf")
    lse_a.view(-1)[3::12] = float("inf")
    lse_b.view(-1)[2::6] = float("-inf")
    lse_b.view(-1)[4::12] = float("inf")
    for lse in (lse_a, lse_b):
        lse.view(-1)[both_empty_every - 1 :: both_empty_every] = float("-inf")
    return [out_a, lse_a, out_b, lse_b]


def get_init_inputs():
    return []
