"""How far two outputs may lie apart, stated before anything is measured, and how far they do.

Both sides run the same kernel, so they differ only where the emulator says it differs: products and sums are fused on a
GPU and not in the emulator, exp and division are approximated there, the sum inside a tensor-core instruction has an
order of its own, and atomics come in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutegen_core.judge.small_floats import FLOAT8, decode
from cutegen_core.records.problem import TensorSpec

_MANTISSA_BITS = {
    "float64": 52, "float32": 23, "float16": 10, "bfloat16": 7,
    **{dtype: float8.mantissa for dtype, float8 in FLOAT8.items()},
}  # fmt: skip
_SMALLEST_NORMAL = {
    "float64": 2.0**-1022, "float16": 2.0**-14, **{dtype: 2.0**float8.lowest for dtype, float8 in FLOAT8.items()},
}  # fmt: skip


class Closeness(NamedTuple):
    """A tolerance: |gpu - emulator| <= ulp units in the last place of the larger, or <= scale * the largest |output|.

    Attributes:
        why: what the two sides may do differently.
    """

    ulp: float
    scale: float
    why: str


EXACT = Closeness(0, 0.0, "no rounding differs: bit for bit")
ROUNDING = Closeness(8, 1e-6, "fused multiply-add, approximations of the math library within 2 ulp")
SUMS = Closeness(8, 8e-6, "the same, added up over a long sum")
APPROXIMATE = Closeness(8, 1e-5, "intrinsics that are approximations on a GPU and exact in the emulator")
ANY_ORDER = Closeness(8, 1e-5, "atomics add in any order")
TENSOR_CORE = Closeness(8, 1e-5, "a tensor-core instruction sums in an order and with a rounding of its own")
SMALL_FLOAT = Closeness(1, 0.0, "float32 differences that round to the other neighbour of a 16-bit value")


class Difference(NamedTuple):
    """What two outputs differ by.

    Attributes:
        max_abs: in the output's units.
        max_rel: max_abs over the largest finite |emulator|.
        max_ulp: in units of the last place of the larger value, over finite pairs.
        differing: elements whose bits differ.
        beyond: elements outside the tolerance, non-finite pairs that differ included.
    """

    max_abs: float
    max_rel: float
    max_ulp: float
    differing: int
    beyond: int
    total: int


def values(data: bytes, spec: TensorSpec) -> np.ndarray:
    """Raw bytes as an array; bfloat16 and 8-bit floats widened to float32."""
    if spec.dtype in FLOAT8:
        return decode(spec.dtype, np.frombuffer(data, np.uint8)).reshape(spec.shape)
    if spec.dtype == "bfloat16":
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(spec.shape)
    return np.frombuffer(data, np.dtype(spec.dtype)).reshape(spec.shape)


def difference(gpu: bytes, emulator: bytes, spec: TensorSpec, allowed: Closeness) -> Difference:
    """Compare two outputs of the same tensor element by element."""
    total = spec.numel
    if gpu == emulator:
        return Difference(0.0, 0.0, 0.0, 0, 0, total)
    left, right = values(gpu, spec), values(emulator, spec)
    if spec.dtype not in _MANTISSA_BITS:
        apart = np.abs(left.astype(np.float64) - right.astype(np.float64))
        differing = int((left != right).sum())
        return Difference(float(apart.max()), _over(apart.max(), _largest(right)), 0.0, differing, differing, total)
    return _floating(left.astype(np.float64), right.astype(np.float64), spec, allowed)


def _floating(left: np.ndarray, right: np.ndarray, spec: TensorSpec, allowed: Closeness) -> Difference:
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    finite = np.isfinite(left) & np.isfinite(right)
    apart = np.where(finite & ~same, np.abs(np.where(finite, left - right, 0.0)), 0.0)
    unit = _ulp(np.where(finite, np.maximum(np.abs(left), np.abs(right)), 1.0), spec.dtype)
    scale = _largest(right)
    near = (apart <= allowed.ulp * unit) | (apart <= allowed.scale * scale)
    beyond = int((~same & (~finite | ~near)).sum())
    largest = float(apart.max(initial=0.0))
    ulps = float((apart / unit).max(initial=0.0))
    return Difference(largest, _over(largest, scale), ulps, int((~same).sum()), beyond, spec.numel)


def _ulp(magnitude: np.ndarray, dtype: str) -> np.ndarray:
    smallest = _SMALLEST_NORMAL.get(dtype, 2.0**-126)
    exponent = np.floor(np.log2(np.maximum(magnitude, smallest)))
    unit: np.ndarray = np.exp2(exponent - _MANTISSA_BITS[dtype])
    return unit


def _largest(array: np.ndarray) -> float:
    wide = np.abs(array.astype(np.float64))
    return float(np.where(np.isfinite(wide), wide, 0.0).max(initial=0.0))


def _over(value: float, scale: float) -> float:
    return float(value) / scale if scale else 0.0
