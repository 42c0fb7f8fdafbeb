"""Quantisation of activations to float8 with a scale for each token, as in front of a float8 matrix product."""

import torch
import torch.nn as nn

TITLE = "Per-token quantisation to float8 (bfloat16)"
EXISTING = "per_token_quant_fp8.cu"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "dim": 1},
    "narrow": {"role": "emulator", "tokens": 37, "dim": 5},
    "ragged": {"role": "emulator", "tokens": 5, "dim": 1021},
    "tile": {"role": "emulator", "tokens": 4, "dim": 1024},
    "tile+1": {"role": "emulator", "tokens": 3, "dim": 1025},
    "vectors": {"role": "emulator", "tokens": 3, "dim": 1544},
    "rows of zeros": {"role": "emulator", "tokens": 7, "dim": 320, "values": "constant"},
    "outlier": {"role": "emulator", "tokens": 6, "dim": 272, "values": "dominant"},
    "below the smallest scale": {"role": "emulator", "tokens": 5, "dim": 304, "values": "denormal"},
    "large_scale": {"role": "emulator", "tokens": 3, "dim": 333, "values": "large_scale"},
    "infinite": {"role": "emulator", "tokens": 6, "dim": 256, "values": "infinite"},
    "not a number": {"role": "emulator", "tokens": 5, "dim": 264, "values": "nan"},
    "medium": {"role": "correctness", "tokens": 129, "dim": 4104},
    "benchmark": {"role": "benchmark"},
    "16 tokens": {"role": "benchmark", "tokens": 16, "dim": 4096},
    "128 tokens": {"role": "benchmark", "tokens": 128, "dim": 5120},
    "1024 tokens": {"role": "benchmark", "tokens": 1024, "dim": 4096},
    "4096 of 5120": {"role": "benchmark", "tokens": 4096, "dim": 5120},
}
# Half a unit of float8 is allowed anyway. Of the quotient before rounding 2^-20 is allowed: eight float32 roundings,
# so that one may multiply by the scale's reciprocal, and a scale in half precision fails.
TOLERANCE = {
    "float8_e4m3fn": {"atol": 1e-6, "rtol": 1e-6},
    "float32": {"atol": 0.0, "rtol": 1e-6},
}
COMPULSORY = {"bytes": "3 * tokens * dim + 4 * tokens"}

LARGEST = 448.0
SMALLEST_SCALE = 1.0 / (LARGEST * 512.0)


class Model(nn.Module):
    """scale = max |x| of the row / 448, at least 1 / (448 * 512), so that a row of zeros gives zeros; x / scale."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x: [tokens, dim], bfloat16; results: quantised [tokens, dim], float8_e4m3fn; scale [tokens, 1], float32."""
        wide = x.float()
        scale = (wide.abs().amax(dim=-1, keepdim=True) / LARGEST).clamp(min=SMALLEST_SCALE)
        return (wide / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


tokens = 4096
dim = 8192


def get_inputs():
    return [torch.randn(tokens, dim).to(torch.bfloat16)]


def get_init_inputs():
    return []
