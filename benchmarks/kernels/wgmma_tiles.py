"""One wgmma tile in every layout its descriptors can say: values and plans for `tests/data/wgmma_variants.cu`, which
the emulator's tests and the GPU benchmark share. Torch-free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutegen_core.records.launch import (
    Argument,
    Launch,
    LaunchPlan,
    ScalarArgument,
    TensorArgument,
    TensorMap,
    TensorMapArgument,
)

KINDS = ("K_MAJOR", "MN_MAJOR", "REGISTERS", "TF32", "HALF")
MISTAKES = (
    "NONE", "TOO_MANY_BYTES", "TOO_FEW_BYTES", "WRONG_PARITY", "NO_WAIT", "NO_FENCE", "NO_COMMIT", "OVERWRITTEN",
    "TOO_MANY_ARRIVALS", "NO_INIT", "READ_TOO_EARLY",
)  # fmt: skip
LAYOUTS = (
    #  kind, bytes of a row of a box of A and of B
    ("K_MAJOR", 128, 128), ("K_MAJOR", 64, 32), ("K_MAJOR", 16, 16), ("K_MAJOR", 32, 64), ("MN_MAJOR", 128, 32),
    ("MN_MAJOR", 64, 16), ("MN_MAJOR", 32, 32), ("MN_MAJOR", 16, 16), ("REGISTERS", 128, 128), ("TF32", 128, 64),
    ("TF32", 16, 32), ("HALF", 128, 128),
)  # fmt: skip
SWIZZLE = {16: "none", 32: "32B", 64: "64B", 128: "128B"}
ROWS, COLUMNS, SMEM_BYTES = 64, 16, 16384
_DTYPES = {"TF32": "float32", "HALF": "float16"}


class Tile(NamedTuple):
    """Operands as they are stored, the dtype to store them in, and the product [64, 16] in float64."""

    a: np.ndarray
    b: np.ndarray
    dtype: str
    want: np.ndarray


def bfloat16(array: np.ndarray) -> np.ndarray:
    """Round to the nearest bfloat16, ties to even; return it as float32."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def stored(array: np.ndarray, dtype: str) -> bytes:
    """Raw little-endian values of that dtype."""
    if dtype != "bfloat16":
        return array.astype(dtype).tobytes()
    return (bfloat16(array).view(np.uint32) >> 16).astype(np.uint16).tobytes()


def tile(kind: str) -> Tile:
    """Random operands that the kind's element type holds exactly; K is 128 bytes."""
    dtype, draw = _DTYPES.get(kind, "bfloat16"), np.random.default_rng(5)
    k = 32 if kind == "TF32" else 64
    a: np.ndarray
    b: np.ndarray
    a, b = (draw.standard_normal((lines, k)).astype(np.float32) for lines in (ROWS, COLUMNS))
    if kind == "TF32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    else:
        a, b = (bfloat16(x) if dtype == "bfloat16" else x.astype(np.float16) for x in (a, b))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    if kind == "MN_MAJOR":
        a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    return Tile(a, b, dtype, want)


def plan(made: Tile, kind: str, a_span: int, b_span: int, mistake: str = "NONE", a_swizzle: str = "") -> LaunchPlan:
    """Return the plan of one block: boxes of A and B are `a_span` and `b_span` bytes wide, swizzled to match.

    Args:
        a_swizzle: of A instead.
    """
    maps = (
        _map("a_map", "a", made.a, made.dtype, a_span, a_swizzle or SWIZZLE[a_span]),
        _map("b_map", "b", made.b, made.dtype, b_span, SWIZZLE[b_span]),
    )
    numbers = (KINDS.index(kind), a_span, b_span, MISTAKES.index(mistake))
    args: tuple[Argument, ...] = (
        TensorMapArgument("a_map"), TensorMapArgument("b_map"), TensorArgument("a", made.dtype),
        TensorArgument("out", "float32"), *(ScalarArgument(n, str(n)) for n in numbers),
    )  # fmt: skip
    return LaunchPlan((Launch("variant", (1, 1, 1), (128, 1, 1), SMEM_BYTES, args),), (), maps)


def _map(name: str, tensor: str, values: np.ndarray, dtype: str, span: int, swizzle: str) -> TensorMap:
    lines, row = values.shape
    item = 4 if dtype == "float32" else 2
    return TensorMap(name, tensor, dtype, 0, (row, lines), (row * item,), (span // item, lines), (1, 1), swizzle)
