"""Write convolutions on tensor cores: halves as they are, floats in three products, or as TF32 if that is allowed."""

from __future__ import annotations

from enum import StrEnum
from math import prod

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import vectors_of, width_of
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.propose.playbook.windows.kernels import grid_of
from cutegen_core.propose.playbook.windows.packed import PackedConvolution, Packing
from cutegen_core.propose.playbook.windows.values import Convolution
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, render
from cutegen_core.records.problem import ITEMSIZE

_TF32 = "SM80_16x8x8_F32TF32TF32F32_TN"
_OPERATION = {
    "float16": "SM80_16x8x16_F32F16F16F32_TN", "bfloat16": "SM80_16x8x16_F32BF16BF16F32_TN", "float32": _TF32,
}  # fmt: skip
_PACKED_VECTORS = 8
"""Of channels, in a tile that a block packs."""
_SHORT = 48
"""Vectors of a sum up to which slices of four lose less than slices of eight, whose last one is mostly empty."""


class Floats(StrEnum):
    """How floats are multiplied: each as three products, or rounded to TF32."""

    IN_THREE = "in three"
    ROUNDED = "rounded"


def tensor_cores(
    region: Region, name: str, naming: Naming, suffix: str, floats: Floats = Floats.IN_THREE
) -> RegionText:
    """Write the kernels that pack both operands, and the one that multiplies them."""
    piece, sliding = RegionText(suffix), region.sliding
    assert isinstance(sliding, Convolution)
    packings = [Packing(region, f"{name}_{side}", naming, image=side == "image") for side in ("image", "weight")]
    k = PackedConvolution(region, name, naming)
    vectors = vectors_of(sliding.channels, k.dtype).size
    tile = _tile(vectors) * width_of(k.dtype)
    for packing in packings:
        packing.add(piece, tile)
    is_float, in_three = k.dtype == "float32", k.dtype == "float32" and floats is Floats.IN_THREE
    piece.allow += ["tf32"] if is_float and not in_three else []
    short = vectors * prod(w.taps.size for w in sliding.windows) <= _SHORT
    p = _params(piece, sliding.filters.size, is_float, in_three, short=short)
    threads, row = f"32 * {p['DOWN']} * {p['ACROSS']}", f"{p['BK']} // {width_of(k.dtype)}"
    stages = f"({p['BM']} + {p['BN']}) * {p['BK']} * {p['STAGES']} * {ITEMSIZE[k.dtype]}"
    smem = f"max({stages}, {p['BM']} * ({p['BN']} + 8) * 4)"
    piece.where += [
        f"{smem} <= smem_max",
        f"{p['BM']} % (16 * {p['DOWN']}) == 0 and {p['BN']} % (16 * {p['ACROSS']}) == 0",
        f"{p['BM']} * {p['BN']} <= {64 if in_three else 128} * {threads}",
        f"{threads} <= {p['BM']} * {row} and {threads} <= {p['BN']} * {row}",
    ]
    code = render(
        "convolution_mma.cu.j2", k=k, p=p, floats=is_float, in_three=in_three, element=ELEMENT[k.dtype],
        operation=_OPERATION[k.dtype], image=packings[0].packed, weight=packings[1].packed,
    )  # fmt: skip
    piece.add_code(code)
    arguments = (*(packing.packed for packing in packings), *k.arguments)
    kernel = f"{name}<{', '.join(p.values())}>"
    piece.launches.append(LaunchText(kernel, grid_of(k, p), (threads,), arguments, smem=smem))
    return piece


def _params(piece: RegionText, filters: int, is_float: bool, in_three: bool, *, short: bool) -> dict[str, str]:
    """Add the tunable parameters; tiles are no higher than the traced filters need.

    Args:
        short: the sums are, so that slices are half as long.
    """
    bm = next((size for size in (16, 32, 64) if filters <= size), 64 if in_three else 128)
    down, across = (1, 4) if bm < 64 else (2, 2)
    bn = 64 if in_three and bm == 64 else 128
    p = {"BM": piece.param("BM", bm, 16, 32, 64, 128), "BN": piece.param("BN", bn, 64, 128, 256)}
    longest = 32 if is_float else 64
    halved = short and bm > 16 if is_float else bm > 16
    p |= {"BK": piece.param("BK", longest // 2 if halved else longest, longest // 2, longest)}
    p |= {"STAGES": piece.param("STAGES", 3 if is_float or bm == 16 else 4, 2, 3, 4)}
    return p | {"DOWN": piece.param("DOWN", down, 1, 2, 4), "ACROSS": piece.param("ACROSS", across, 1, 2, 4)}


def _tile(vectors: int) -> int:
    """Return how many vectors of channels a block packs at once: a power of two."""
    return min(_PACKED_VECTORS, 1 << (vectors - 1).bit_length())
