"""Rotary position embedding of queries and keys, as serving engines apply it: the halves of every head rotated."""

import torch
import torch.nn as nn

TITLE = "Rotary embedding of queries and keys (bfloat16)"
EXISTING = "rotary_embedding.cu"
WORKLOADS = {
    "one": {"role": "emulator", "tokens": 1, "heads": 1, "kv_heads": 1, "pairs": 1, "max_position": 3},
    "ragged": {"role": "emulator", "tokens": 7, "heads": 5, "kv_heads": 3, "pairs": 5, "max_position": 37},
    "tile": {"role": "emulator", "tokens": 5, "heads": 8, "kv_heads": 2, "pairs": 32, "max_position": 64},
    "grouped": {"role": "emulator", "tokens": 3, "heads": 12, "kv_heads": 4, "pairs": 64, "max_position": 41},
    "odd pairs": {"role": "emulator", "tokens": 13, "heads": 3, "kv_heads": 3, "pairs": 17, "max_position": 19},
    "pairs of 20": {"role": "emulator", "tokens": 9, "heads": 1, "kv_heads": 2, "pairs": 20, "max_position": 90},
    "large_scale": {
        "role": "emulator", "tokens": 4, "heads": 3, "kv_heads": 1, "pairs": 24, "max_position": 50,
        "values": "large_scale",
    },
    "last position": {
        "role": "emulator", "tokens": 6, "heads": 2, "kv_heads": 2, "pairs": 8, "max_position": 1000,
        "values": "highest",
    },
    "medium": {
        "role": "correctness", "tokens": 129, "heads": 14, "kv_heads": 2, "pairs": 32, "max_position": 2048,
    },
    "many tokens": {
        "role": "correctness", "tokens": 1031, "heads": 3, "kv_heads": 1, "pairs": 16, "max_position": 64,
    },
    "128 heads": {
        "role": "correctness", "tokens": 3, "heads": 128, "kv_heads": 128, "pairs": 64, "max_position": 97,
    },
    "benchmark": {"role": "benchmark"},
    "decode": {"role": "benchmark", "tokens": 64},
    "batch": {"role": "benchmark", "tokens": 1024},
    "64 heads": {"role": "benchmark", "tokens": 4096, "heads": 64},
    "32 pairs": {"role": "benchmark", "tokens": 8192, "heads": 14, "kv_heads": 2, "pairs": 32},
}  # fmt: skip
TOLERANCE = {"bfloat16": {"atol": 1e-2, "rtol": 1e-2}}
COMPULSORY = {"bytes": "8 * tokens * (heads + kv_heads) * pairs + 8 * tokens"}


class Model(nn.Module):
    """x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin, for queries and keys."""

    def __init__(self, head_size: int, max_position: int, base: float) -> None:
        super().__init__()
        rates = base ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
        angles = torch.arange(max_position, dtype=torch.float32)[:, None] * rates
        self.register_buffer("cos_sin_cache", torch.cat((angles.cos(), angles.sin()), dim=-1))

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """positions: [tokens], int64; query: [tokens, heads, head_size], key: [tokens, kv_heads, head_size], bfloat16;
        cos_sin_cache: [max_position, head_size], float32, cosines then sines; results: as query and key."""
        cos, sin = self.cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
        return rotate(query, cos, sin), rotate(key, cos, sin)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate in float32, and round once."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


tokens = 8192
heads = 32
kv_heads = 8
pairs = 64
max_position = 32768
base = 10000.0


def get_inputs():
    positions = torch.randint(0, max_position, (tokens,))
    query = torch.randn(tokens, heads, 2 * pairs).to(torch.bfloat16)
    key = torch.randn(tokens, kv_heads, 2 * pairs).to(torch.bfloat16)
    return [positions, query, key]


def get_init_inputs():
    return [2 * pairs, max_position, base]
