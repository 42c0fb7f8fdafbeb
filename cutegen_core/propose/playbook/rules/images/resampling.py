"""Rules of images read between their elements: nearest and cubic interpolation, and samples at the places of a grid.

The formulas are those of PyTorch's `interpolate`, `grid_sample` and `affine_grid`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce as chained
from itertools import product as pairs
from typing import NamedTuple

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, cast, div, like, mul, sub
from cutegen_core.propose.playbook.rules.images.interpolation import image_of, longer_side
from cutegen_core.propose.playbook.rules.joins import drawn_out_to
from cutegen_core.propose.playbook.rules.taken import followed, length_of
from cutegen_core.propose.playbook.values import (
    ONE,
    Extent,
    Taken,
    Value,
    compute,
    extent,
    position,
    squeeze,
    unsqueeze,
    window,
)

_OUTER = "((({T}(-0.75) * {0} + {T}(3.75)) * {0} - {T}(6)) * {0} + {T}(3))"
_INNER = "(({T}(1.25) * {0} - {T}(2.25)) * {0} * {0} + {T}(1))"
"""Weights of the elements further away than one step, and nearer, by their distance."""
_INSIDE = "{0} >= 0 && {0} < {1}"


class _Tap(NamedTuple):
    """One of the elements along a dimension that a result is made of, its weight, and whether it is in the image."""

    place: Value
    weight: Value
    inside: Value | None = None


def _nearest(call: OperationCall) -> Value:
    """Return the element next to each result, in float arithmetic as PyTorch has it."""
    x, scales = call.floating(0), call.operand(2, "scale_factors")
    if (whole := drawn_out_to(x, call.node.shape)) is not None:
        return whole
    shift, places, lengths = 0.5 if "exact" in call.node.op else 0.0, list[Value](), list(x.dims[:2])
    for axis, own in enumerate(x.dims[2:], 2):
        scale = scales[axis - 2] if isinstance(scales, tuple) else None
        lengths.append(longer_side(call, own, axis, scale))
        where = cast(position((lengths[-1],), 0), "float32")
        source = mul(add(where, like(where, shift)), _step(own, lengths[-1], scale, "float32"))
        code = "static_cast<long>({0}) < {1} ? static_cast<long>({0}) : {1} - 1"
        places.append(followed(compute(code, source, length_of(own), dtype="int64"), len(x.dims) - 1 - axis))
    return Taken(tuple(lengths), x.dtype, x, (None, None, *places), (0, 1, *(None for _ in places)))


def _step(own: Extent, length: Extent, scale: object, dtype: str) -> Value:
    """Return how far apart in the operand neighbouring results lie."""
    whole, longer = (cast(length_of(one), dtype) for one in (own, length))
    return like(whole, 1 / scale) if isinstance(scale, int | float) else div(whole, longer)


def _cubic(call: OperationCall) -> Value:
    x, aligned, scales = image_of(call), call.flag(2, "align_corners"), call.operand(3, "scale_factors")
    dtype = "float64" if x.dtype == "float64" else "float32"
    lengths, taps = list(x.dims[:2]), []
    for axis, own in enumerate(x.dims[2:], 2):
        scale = scales[axis - 2] if isinstance(scales, tuple) else None
        lengths.append(longer_side(call, own, axis, scale))
        source = _source(own, lengths[-1], None if aligned else scale, dtype, aligned=aligned)
        behind = len(x.dims) - 1 - axis
        taps.append([_Tap(followed(t.place, behind), followed(t.weight, behind)) for t in _four(own, source)])
    return cast(_added_up(x, tuple(lengths), taps, dtype), x.dtype)


def _source(own: Extent, length: Extent, scale: object, dtype: str, *, aligned: bool) -> Value:
    where = cast(position((length,), 0), dtype)
    if not aligned:
        return compute("({0} + {T}(0.5)) * {1} - {T}(0.5)", where, _step(own, length, scale, dtype), dtype=dtype)
    sides = (cast(length_of(one), dtype) for one in (own, length))
    return compute("{2} > 1 ? {0} * (({1} - 1) / ({2} - 1)) : {T}(0)", where, *sides, dtype=dtype)


def _four(own: Extent, source: Value) -> list[_Tap]:
    """Return the two elements before a place and the two behind it; beyond the edges are those at the edges."""
    below = compute("floor{f}({0})", source, dtype=source.dtype)
    share = compute("{0} - {1}", source, below, dtype=source.dtype)
    first, last = cast(below, "int64"), length_of(own)
    distances = ("{0} + {T}(1)", "{0}", "{T}(1) - {0}", "{T}(2) - {0}")
    taps = []
    for k, (code, weight) in enumerate(zip(distances, (_OUTER, _INNER, _INNER, _OUTER), strict=True), -1):
        code_of_place = f"{{0}} + {k} < 0 ? 0L : {{0}} + {k} < {{1}} ? {{0}} + {k} : {{1}} - 1"
        place = compute(code_of_place, first, last, dtype="int64")
        away = compute(code, share, dtype=share.dtype)
        taps.append(_Tap(place, compute(weight, away, dtype=share.dtype)))
    return taps


def _added_up(x: Value, dims: tuple[Extent, ...], taps: Sequence[Sequence[_Tap]], dtype: str) -> Value:
    """Return the sum of the elements at all combinations of taps, times the products of their weights."""

    def at(chosen: Sequence[_Tap]) -> Value:
        seen = Taken(dims, x.dtype, x, (None, None, *(tap.place for tap in chosen)), (0, 1, *(None for _ in chosen)))
        element, weight = cast(seen, dtype), chained(mul, (tap.weight for tap in chosen))
        if len(chosen) > 2:  # of a weight that is no number PyTorch makes 0 here, but none in two dimensions
            return _where_inside(chosen, mul(element, weight))
        return mul(_where_inside(chosen, element), weight)

    return chained(add, map(at, pairs(*taps)))


def _where_inside(chosen: Sequence[_Tap], value: Value) -> Value:
    for tap in chosen:
        if tap.inside is not None:
            value = compute("{0} ? {1} : {T}(0)", tap.inside, value, dtype=value.dtype)
    return value


_OUTSIDE_IS_ZERO, _REFLECTED = 0, 2
"""Of `padding_mode`, as PyTorch counts them; 1 takes the nearest pixel."""


def _grid_sampler(call: OperationCall) -> Value:
    """Return an image at the places of a grid, which counts from -1 to 1 along each dimension, the last one first."""
    x, grid, modes = call.tensor(0), call.tensor(1), call.integers(2) + call.integers(3)
    if modes[0] not in (0, 1):
        raise not_in_playbook("cubic samples of a grid")
    nearest, aligned = modes[0] == 1, call.flag(4, "align_corners")
    rank, dtype = len(x.dims) - 2, "float64" if x.dtype == "float64" else "float32"
    taps = []
    for k, own in enumerate(x.dims[2:]):
        at = Extent(str(rank - 1 - k), rank - 1 - k)
        given = cast(squeeze(window(grid, -1, at, ONE), (rank + 1,)), dtype)
        size = cast(length_of(own), dtype)
        code = "({0} + 1) / 2 * ({1} - 1)" if aligned else "(({0} + 1) * {1} - 1) / 2"
        where: Value = compute(code, unsqueeze(given, 1), size, dtype=dtype)
        if modes[1] == _REFLECTED:
            where = _reflected(where, size, aligned=aligned)
        if modes[1] != _OUTSIDE_IS_ZERO:
            where = compute("fmin{f}(fmax{f}({0}, 0), {1} - 1)", where, size, dtype=dtype)
        taps.append(_neighbours(where, size, nearest=nearest))
    return cast(_added_up(x, (*x.dims[:2], *grid.dims[1:-1]), taps, dtype), x.dtype)


def _reflected(where: Value, size: Value, *, aligned: bool) -> Value:
    """Return a place turned back at the edges: these are the outer pixels' middles where corners are aligned."""
    edge, span = (0.0, sub(size, like(size, 1.0))) if aligned else (-0.5, size)
    away = compute("fabs{f}({0} - {1})", where, like(where, edge), dtype=where.dtype)
    within = compute("fmod{f}({0}, 2 * {1})", away, span, dtype=where.dtype)
    code = "{1} > 0 ? fmin{f}({0}, 2 * {1} - {0}) + {2} : {T}(0)"
    return compute(code, within, span, like(where, edge), dtype=where.dtype)


def _neighbours(where: Value, size: Value, *, nearest: bool) -> list[_Tap]:
    """Return the elements round a place along a dimension."""
    dtype = where.dtype
    if nearest:
        sides: list[tuple[Value, Value]] = [(compute("rint{f}({0})", where, dtype=dtype), like(where, 1.0))]
    else:
        low = compute("floor{f}({0})", where, dtype=dtype)
        high = add(low, like(low, 1.0))
        sides = [(low, sub(high, where)), (high, sub(where, low))]
    taps = []
    for side, weight in sides:
        place = compute(f"{_INSIDE} ? static_cast<long>({{0}}) : 0L", side, size, dtype="int64")
        taps.append(_Tap(place, weight, compute(_INSIDE, side, size, dtype="bool")))
    return taps


def _affine_grid(call: OperationCall) -> Value:
    """Return where the pixels of an image lie in another one, by a matrix of two or three rows for each image."""
    theta, sizes, aligned = call.tensor(0), call.integers(1), call.flag(2, "align_corners")
    sides = [extent(size) for size in sizes[2:]]
    rank, dtype = len(sides), theta.dtype
    for _ in sides:
        theta = unsqueeze(theta, 1)
    columns = [squeeze(window(theta, -1, Extent(str(k), k), ONE), (rank + 2,)) for k in range(rank + 1)]
    terms = []
    for k, side in enumerate(sides):
        code = "{1} > 1 ? {0} * 2 / ({1} - 1) - 1 : {T}(0)" if aligned else "({0} * 2 + 1) / {1} - 1"
        where = compute(code, cast(position((side,), 0), dtype), cast(length_of(side), dtype), dtype=dtype)
        terms.append(mul(columns[rank - 1 - k], followed(where, rank - k)))
    return add(chained(add, reversed(terms)), columns[-1])


RULES: Mapping[str, Rule] = {
    **{f"{name}{n}d": _nearest for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)},
    "upsample_bicubic2d": _cubic, "grid_sampler": _grid_sampler, "affine_grid_generator": _affine_grid,
}  # fmt: skip
