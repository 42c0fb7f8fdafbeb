"""Rules of linear interpolation between elements: upsampling along one, two or three dimensions.

The formulas are those of PyTorch's `interpolate`. With `align_corners` the first and the last elements of both grids
lie upon one another; else the elements are centres of cells, and what lies outside has the value at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast, div, like
from cutegen_core.propose.playbook.rules.taken import followed, length_of
from cutegen_core.propose.playbook.values import (
    Extent,
    Taken,
    Value,
    combined,
    compute,
    extent,
    fits,
    is_constant,
    position,
)

_LARGEST_DENOMINATOR = 64


class _Between(NamedTuple):
    """Tells where results lie along a dimension: behind element `low`, by the share `weight` of the way to `high`."""

    length: Extent
    low: Value
    high: Value
    weight: Value


def _upsample_linear(call: OperationCall) -> Value:
    x, aligned = image_of(call), call.flag(2, "align_corners")
    scales = call.operand(3, "scale_factors")
    dtype = "float64" if x.dtype == "float64" else "float32"
    axes = []
    for k, own in enumerate(x.dims[2:]):
        scale = scales[k] if isinstance(scales, tuple) else None
        length = longer_side(call, own, k + 2, scale)
        axes.append(_between(own, length, scale, dtype, aligned=aligned))
    dims = (*x.dims[:2], *(axis.length for axis in axes))
    return cast(_interpolated(x, dims, axes, (), dtype), x.dtype)


def image_of(call: OperationCall) -> Value:
    """Return the first operand; refuse one of whole numbers, between which PyTorch computes in steps of its own."""
    x = call.tensor(0)
    if x.dtype not in FLOATS:
        raise not_in_playbook(f"'{call.node.op}' of {x.dtype}")
    return x


def longer_side(call: OperationCall, own: Extent, axis: int, scale: object) -> Extent:
    """Return the extent of the result along a dimension."""
    size = call.node.shape[axis]
    if scale is None:
        return extent(size)
    if not isinstance(scale, int | float) or not is_constant(scale):
        raise not_in_playbook(f"'{call.node.op}' by a factor that changes with the sizes")
    factor = Fraction(scale).limit_denominator(_LARGEST_DENOMINATOR)
    times, parts = Extent(str(factor.numerator), factor.numerator), factor.denominator
    longer = own.times(times)
    if parts > 1:
        longer = combined(f"({own.text} * {times.text} // {parts})", lambda n, k: n * k // parts, own, times)
    if not fits((longer,), (size,)):
        raise not_in_playbook(f"'{call.node.op}' by {scale} to {int(size)} elements of {int(own.size)}")
    return longer


def _between(own: Extent, length: Extent, scale: object, dtype: str, *, aligned: bool) -> _Between:
    where = cast(position((length,), 0), dtype)
    last, whole = length_of(own), (cast(length_of(one), dtype) for one in (own, length))
    if aligned:
        code = "{2} > 1 ? {0} * (({1} - 1) / ({2} - 1)) : {T}(0)"
        source = compute(code, where, *whole, dtype=dtype)
    else:
        step = like(where, 1 / scale) if isinstance(scale, int | float) else div(*whole)
        source = compute("fmax{f}(({0} + {T}(0.5)) * {1} - {T}(0.5), {T}(0))", where, step, dtype=dtype)
    low = compute("static_cast<long>({0}) < {1} ? static_cast<long>({0}) : {1} - 1", source, last, dtype="int64")
    # PyTorch copies what keeps its length, and reads no neighbour.
    high = compute("{0} + 1 < {1} && {1} != {2} ? {0} + 1 : {0}", low, last, length_of(length), dtype="int64")
    return _Between(length, low, high, compute("{0} - static_cast<{T}>({1})", source, low, dtype=dtype))


def _interpolated(
    x: Value, dims: tuple[Extent, ...], axes: Sequence[_Between], places: tuple[Value, ...], dtype: str
) -> Value:
    """Return the mean of the elements round each result along the dimensions that have no place yet, by weight."""
    if len(places) == len(axes):
        return cast(Taken(dims, x.dtype, x, (None, None, *places), (0, 1, *(None for _ in axes))), dtype)
    axis, behind = axes[len(places)], len(axes) - len(places) - 1
    low, high = (
        _interpolated(x, dims, axes, (*places, followed(place, behind)), dtype) for place in (axis.low, axis.high)
    )
    return compute("({T}(1) - {2}) * {0} + {2} * {1}", low, high, followed(axis.weight, behind), dtype=dtype)


RULES: Mapping[str, Rule] = dict.fromkeys(
    ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _upsample_linear
)
