"""Judge one output: compare it with the reference element by element.

An element is right when |got - want| <= allowed, with

    allowed = min( max(atol + rtol * |want|, multiple / 2 * own), max(multiple * own, 4 ulp at the output's scale) )

(for 16 bits: 4 ulp at the element, or 1 ulp at the root of the output's mean square).

`want` is the reference in float64; `own` is the reference's largest error at the declared precision (over several
seeds if the output is small). The first term is allclose with both tolerances, widened where the reference itself is
inexact (sums of large numbers that cancel). The second term catches a product that is declared float32 but computed in
TF32 or bfloat16.
Calibration (multiple 32): summing 4096 products in sequence errs by at most 21 x own, TF32 by at least 65 x (unsigned
inputs) or 700 x (signed), a one-pass variance of values with a large mean by 1500 x.

Floats of 8 and 16 bits have so few bits that every rounding of the output would count as an error: for them half a
unit in the last place at each value comes on top of `allowed`, and `own` counts only what is beyond that. Of 8-bit
floats what is beyond the largest number may saturate (`small_floats`).

NaN and Inf must match; where the declared precision overflows, the finite and the overflowed value are both right.
float32 may flush values below the smallest normal number to zero. Integers and bools must equal the reference at either
precision (a tie in argmax may fall both ways).

Numpy only: this runs in the reference worker, never in the candidate's process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutegen_core.judge.mismatch import find_pattern
from cutegen_core.judge.small_floats import FLOAT8, FLOAT16, ROUNDED, half_units, saturate
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Tolerance
from cutegen_core.records.trial import Comparison, Mismatch

Array = NDArray[Any]
Mask = NDArray[np.bool_]

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
    **{dtype: float8.epsilon for dtype, float8 in FLOAT8.items()},
}  # fmt: skip
_FIRST = 8
_HEATMAP = 32
_ULPS = 4.0
_ROW_ULPS = 2.0
"""At the mean magnitude of a row: attention with weights rounded to halves is off by a fifth of one, and in some of a
million elements by more than one."""
_LONG, _OF_A_SEQUENCE = 256, 1 / 8
"""Elements of a sum from which its order matters; and the share of what it errs in sequence that counts as the
reference's own error: with the usual multiple, four times as much as it errs is the most that is allowed."""
_ROUGHEST, _SEVERAL = 2.0**-7, 8
"""Share of a number by which bfloat16 rounds it at most, with some that add up; elements that seldom err one way."""
_INEXACT = 16.0
"""Epsilons, at the output's scale: rounding after every operation errs by less."""
OVERFLOWS_FROM = {
    "float64": np.inf, "float32": 2.0**128 - 2.0**103, "bfloat16": 2.0**128 - 2.0**119, "float16": 65520.0,
    **{dtype: float8.overflows_from for dtype, float8 in FLOAT8.items()},
}  # fmt: skip
"""The smallest numbers that are rounded to what is beyond the format."""
_FLUSHED = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24, **dict.fromkeys(FLOAT8, 0.0)}


@dataclass(frozen=True)
class Precision:
    """Accuracy of the reference at the declared precision, for one output.

    Attributes:
        own: largest |reference at declared precision - reference in float64|.
        scale: largest finite |want|.
        typical: of 16 bits, root of the mean square of the finite ones.
    """

    own: float
    scale: float
    typical: float = 0.0

    def merge(self, other: Precision) -> Precision:
        """Return the precision over both samples."""
        return Precision(max(self.own, other.own), max(self.scale, other.scale), max(self.typical, other.typical))


class ErrorLimits(NamedTuple):
    """Bounds the allowed error, whatever the tolerance.

    Attributes:
        least: the error that is always allowed, unless the others forbid it.
        most: the one that never is.
        share: of the element, which may be more than `most`.
        of_row: of the mean magnitude of the element's row, which may be more than `most`, too.
    """

    least: float
    most: float
    share: float
    of_row: float = 0.0

    def most_at(self, want: Array) -> Array:
        """Return the error that is never allowed at each element."""
        most: Array = np.maximum(self.share * np.abs(want), self.most)
        if self.of_row and want.ndim > 1 and want.size:
            np.maximum(most, self.of_row * np.abs(want).mean(axis=-1, keepdims=True), out=most)
        return most


@dataclass(frozen=True)
class OutputValues:
    """Values of one output, from the kernel and from the reference; all arrays have the same shape.

    Attributes:
        got: the kernel's values; floats as float64, integers unchanged.
        want: the reference in float64 (integers: as that run gave them).
        declared: the reference at the declared precision; None if `want` is only available there.
        poison: elements whose bytes all still hold the poison byte.
        others: further answers that are right, too, where the reference does not define a single one.
    """

    got: Array
    want: Array
    declared: Array | None
    poison: Mask
    others: tuple[Array, ...] = ()


def compare(
    output: str, dtype: str, tolerance: Tolerance, values: OutputValues, precision: Precision | None = None
) -> Comparison:
    """Judge one output; it is right if `wrong` is 0.

    Args:
        precision: measured over further seeds; by default measured from `values` alone.
    """
    if precision is None and values.declared is not None:
        precision = measure(values.want, values.declared, dtype)
    allowed = _allowed(dtype, tolerance, values.want, precision)
    ratio = _error_ratio(values, allowed, dtype)
    for other in values.others:
        again = replace(values, want=other, declared=None)
        ratio = np.minimum(ratio, _error_ratio(again, _allowed(dtype, tolerance, other, precision), dtype))
    wrong: Mask = ratio > 1.0
    some = bool(wrong.any())
    error = _finite_error(values.got, saturate(dtype, values.want))
    return Comparison(
        output=output,
        shape=tuple(values.got.shape),
        wrong=int(wrong.sum()),
        total=int(wrong.size),
        max_abs_error=float(error.max(initial=0.0)),
        error_ratio=float(ratio.max(initial=0.0)),
        reference_error=precision.own if precision else 0.0,
        widening=widening(dtype, tolerance, precision),
        nan=int((wrong & _is_nan(values.got) & ~values.poison).sum()) if some else 0,
        inf=int((wrong & _is_inf(values.got)).sum()) if some else 0,
        poison=int((wrong & values.poison).sum()) if some else 0,
        first=_first(values, wrong) if some else (),
        pattern=describe_mismatch(values, wrong, tolerance) if some else "",
        heatmap=heatmap(wrong) if some else (),
    )


def measure(want: Array, declared: Array, dtype: str = "") -> Precision:
    """Measure the reference's own error and scale, over elements that are finite in both arrays.

    Args:
        dtype: of `declared`; if it has 8 or 16 bits, the rounding of the output itself is no error.
    """
    want = saturate(dtype, want.astype(np.float64, copy=False))
    finite = np.abs(_finite_or_zero(want))
    error = _finite_error(declared, want)
    if dtype in ROUNDED:
        error -= half_units(ROUNDED[dtype], finite)
    typical = float(np.sqrt(np.mean(np.square(finite)))) if dtype in FLOAT16 and finite.size else 0.0
    return Precision(float(error.max(initial=0.0)), float(finite.max(initial=0.0)), typical)


def with_sum(precision: Precision, dtype: str, longest: int, *, is_sorted: bool = False) -> Precision:
    """Return the precision of a float32 output that is made of a sum: one in sequence errs more than the reference's.

    Formula: n roundings, each of half a unit of the sum so far, add up like a random walk, to sqrt(n) of them. Of
    sorted numbers the sum so far rises to sqrt(n) times what it is in any order, and falls again: n / 4, measured.

    Args:
        longest: its elements, n.
        is_sorted: they are sorted.
    """
    if dtype != "float32" or longest < _LONG:
        return precision
    error = EPSILON[dtype] * (longest / 4 if is_sorted else longest**0.5) * precision.scale
    return replace(precision, own=max(precision.own, _OF_A_SEQUENCE * error))


def error_limits(dtype: str, tolerance: Tolerance, precision: Precision) -> ErrorLimits:
    """Return what bounds the allowed error; of float64 there is no error that never is allowed.

    The reference itself errs in a float64 result where it computes that from narrower ones.
    """
    multiple = tolerance.error_multiple
    least = multiple / 2 * precision.own
    if dtype == "float64":
        return ErrorLimits(least, math.inf, 0.0)
    epsilon, most = EPSILON[dtype], max(multiple * precision.own, _FLUSHED[dtype])
    if dtype in FLOAT16:
        epsilon *= multiple / Tolerance.error_multiple
        return ErrorLimits(least, max(most, epsilon * precision.typical), _ULPS * epsilon, _ROW_ULPS * epsilon)
    return ErrorLimits(least, max(most, _ULPS * epsilon * precision.scale), 0.0)


def widening(dtype: str, tolerance: Tolerance, precision: Precision | None) -> float:
    """Return how many times the usual tolerance is allowed at the output's scale.

    A file can widen it by its TOLERANCE, and by a result at its declared precision that is far from its float64 result.
    """
    if dtype not in EPSILON or precision is None:
        return 0.0
    usual, scale = DEFAULT_TOLERANCE[dtype], precision.scale
    limits = error_limits(dtype, tolerance, precision)
    inexact = precision.own > _INEXACT * EPSILON[dtype] * scale
    most = float(limits.most_at(np.asarray(scale)))
    allowed = min(max(tolerance.atol + tolerance.rtol * scale, limits.least if inexact else 0.0), most)
    return allowed / (usual.atol + usual.rtol * scale)


def heatmap(wrong: Mask) -> tuple[tuple[float, ...], ...]:
    """Return the share of wrong elements per cell, at most 32 x 32; leading dimensions become rows."""
    table = wrong.reshape(-1, wrong.shape[-1] if wrong.ndim > 1 else wrong.size).astype(np.float64)
    for axis in (0, 1):
        edges = cell_edges(table.shape[axis])
        counts = np.diff(edges)
        sums = np.add.reduceat(table, edges[:-1], axis=axis)
        table = sums / (counts[:, None] if axis == 0 else counts[None, :])
    return tuple(tuple(float(v) for v in row) for row in table)


def cell_edges(extent: int) -> NDArray[np.int64]:
    """Return the start of each heatmap cell along one axis of a table, and the end of the last cell."""
    return np.unique(np.linspace(0, extent, _HEATMAP + 1).astype(np.int64))


def _allowed(dtype: str, tolerance: Tolerance, want: Array, precision: Precision | None) -> Array:
    """Return the largest allowed |got - want| per element."""
    if dtype not in EPSILON:
        return np.zeros(want.shape)
    want = _finite_or_zero(saturate(dtype, want))
    close: Array = np.asarray(np.abs(want))
    close *= tolerance.rtol
    close += tolerance.atol
    if precision is not None:
        limits = error_limits(dtype, tolerance, precision)
        np.maximum(close, limits.least, out=close)
        np.minimum(close, limits.most_at(want), out=close)
    if dtype in ROUNDED:
        close += half_units(ROUNDED[dtype], want)
    return close


def _error_ratio(values: OutputValues, allowed: Array, dtype: str) -> Array:
    """Return error / allowed error: 0 where equal, infinite where a NaN or Inf is in the wrong place."""
    if dtype not in EPSILON:
        same = values.got == values.want
        if values.declared is not None:
            same |= values.got == values.declared
        return np.where(same, 0.0, np.inf)
    want = saturate(dtype, values.want)
    error: Array = np.asarray(_finite_or_zero(values.got) - _finite_or_zero(want))
    np.abs(error, out=error)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(error, allowed, out=error, where=error != 0.0)
    special = ~(np.isfinite(values.got) & np.isfinite(want))
    if not special.any():
        return ratio
    same = _same_special(values.got, want) | _is_overflow(dtype, values.got, values.want, allowed)
    if values.declared is not None:
        # The declared precision overflows where float64 does not: an honest kernel may give either value.
        overflows = ~np.isfinite(values.declared) & np.isfinite(values.want)
        same |= overflows & _same_special(values.got, values.declared)
        same |= overflows & np.isnan(values.declared) & ~np.isfinite(values.got)
    result: Array = np.where(special, np.where(same, 0.0, np.inf), ratio)
    return result


def _is_overflow(dtype: str, got: Array, want: Array, allowed: Array) -> Mask:
    """Return where a number beyond the format is right, and `got` says so: with an infinity, or NaN where it has none.

    That number may be one that the tolerance allows; the tolerance of 8-bit formats has their own rounding in it.
    """
    float8 = FLOAT8.get(dtype)
    beyond = np.abs(want) + (0.0 if float8 else allowed) >= OVERFLOWS_FROM[dtype]
    has_infinity = float8 is None or float8.infinity
    said = np.isinf(got) & (np.sign(got) == np.sign(want)) if has_infinity else np.isnan(got)
    return np.asarray(beyond & said)


def _same_special(left: Array, right: Array) -> Mask:
    return np.asarray((np.isnan(left) & np.isnan(right)) | (np.isinf(left) & (left == right)))


def _is_rounding(values: OutputValues, wrong: Mask) -> bool:
    """Return whether the wrong elements are off as by numbers of fewer bits: either way, and by a small share."""
    off, want = (values.got - values.want)[wrong], np.abs(values.want[wrong])
    one_way = off.size >= _SEVERAL and (np.all(off > 0) or np.all(off < 0))
    return bool(np.median(np.abs(off)) <= _ROUGHEST * np.median(want) and not one_way)


def _finite_or_zero(values: Array) -> Array:
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


def _finite_error(left: Array, right: Array) -> Array:
    a, b = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    both = np.isfinite(a) & np.isfinite(b)
    if not both.all():
        a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)
    error: Array = np.asarray(a - b)
    return np.abs(error, out=error)


def _is_nan(values: Array) -> Mask:
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool))


def _is_inf(values: Array) -> Mask:
    return np.asarray(np.isinf(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool))


def _first(values: OutputValues, wrong: Mask) -> tuple[Mismatch, ...]:
    flat = np.flatnonzero(wrong)[:_FIRST]
    got, want = values.got.reshape(-1), values.want.reshape(-1)
    return tuple(
        Mismatch(tuple(int(i) for i in np.unravel_index(k, wrong.shape)), _number(got[k]), _number(want[k]))
        for k in flat
    )


def _number(value: np.generic) -> int | float:
    return float(value) if value.dtype.kind == "f" else int(value)


def describe_mismatch(values: OutputValues, wrong: Mask, tolerance: Tolerance) -> str:
    """Describe what the wrong elements have in common, in words; at least one element is wrong."""
    if values.want.dtype.kind == "f":
        close = tolerance.atol + tolerance.rtol * np.abs(values.want)
        finite = np.isfinite(values.got).all() and np.isfinite(values.want).all()
        error = _finite_error(values.got, values.want)
        if finite and bool((error <= close).all()):
            said = "within atol + rtol everywhere, but far less exact than the reference is at this precision"
            return said + (": as if computed in TF32, bfloat16 or float16" if _is_rounding(values, wrong) else "")
    return find_pattern(values.got, values.want, wrong, values.poison)
