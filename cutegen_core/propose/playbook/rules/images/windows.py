"""Rules of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, cast, div, like, mul
from cutegen_core.propose.playbook.rules.products import from_memory, is_of_few_terms, matmul
from cutegen_core.propose.playbook.rules.reductions import mean_of
from cutegen_core.propose.playbook.rules.taken import followed, in_one, length_of
from cutegen_core.propose.playbook.values import (
    ONE,
    ZERO,
    Extent,
    Reshape,
    Size,
    Value,
    combined,
    compute,
    extent,
    fits,
    position,
    product,
    reduce,
    reshape,
    squeeze,
    unsqueeze,
)
from cutegen_core.propose.playbook.windows.geometry import (
    Window,
    over,
    slide,
    slide_same,
    slide_transposed,
)
from cutegen_core.propose.playbook.windows.values import Convolution, Pooling


def _convolution(rank: int) -> Rule:
    def rule(call: OperationCall) -> Value:
        stride, dilation = (_each(call, i, name, rank, 1) for i, name in ((3, "stride"), (5, "dilation")))
        padding = call.operand(4, "padding", 0)
        margins = None if padding == "same" else _each(call, 4, "padding", rank, 0)  # "valid" has no number
        return _convolved(call, rank, stride, dilation, margins, _groups(call, 6))

    return rule


def _transposed(rank: int) -> Rule:
    def rule(call: OperationCall) -> Value:
        words = ((3, "stride", 1), (4, "padding", 0), (7, "dilation", 1), (5, "output_padding", 0))
        stride, padding, dilation, more = (_each(call, i, name, rank, default) for i, name, default in words)
        return _convolved(call, rank, stride, dilation, padding, _groups(call, 6), more)

    return rule


def _any_convolution(call: OperationCall) -> Value:
    rank = len(call.node.shape) - 2
    words = ((3, "stride", 1), (5, "dilation", 1), (4, "padding", 0), (7, "output_padding", 0))
    stride, dilation, padding, more = (_each(call, i, name, rank, default) for i, name, default in words)
    return _convolved(call, rank, stride, dilation, padding, _groups(call, 8), more if call.flag(6, "") else None)


def _groups(call: OperationCall, position: int) -> Extent:
    (groups,) = call.integers(position, "groups") or (1,)
    return extent(groups)


def _each(call: OperationCall, position: int, name: str, rank: int, default: int) -> list[Extent]:
    """Return a number for each dimension, slowest first."""
    given = call.integers(position, name) or (default,)
    return [extent(n) for n in (given * rank if len(given) == 1 else given)]


def _convolved(
    call: OperationCall, rank: int, stride: Sequence[Extent], dilation: Sequence[Extent],
    padding: Sequence[Extent] | None, groups: Extent, more: Sequence[Extent] | None = None,
) -> Value:  # fmt: skip
    """Return a convolution; `padding` None: as much as keeps the extents, `more`: of a transposed one."""
    x, weight = call.tensor(0), call.tensor(1)
    if call.node.dtype not in FLOATS:
        raise not_in_playbook(f"a convolution of {call.node.dtype}")
    if len(x.dims) == rank + 1:
        return squeeze(_bias(call, _of_images(unsqueeze(x, 0), weight, call, stride, dilation, padding, groups, more)),
                       (0,))  # fmt: skip
    return _bias(call, _of_images(x, weight, call, stride, dilation, padding, groups, more))


def _of_images(
    x: Value, weight: Value, call: OperationCall, stride: Sequence[Extent], dilation: Sequence[Extent],
    padding: Sequence[Extent] | None, groups: Extent, more: Sequence[Extent] | None,
) -> Value:  # fmt: skip
    whole = list(zip(x.dims[2:], weight.dims[2:], stride, dilation, strict=True))
    if more is not None and padding is not None:
        windows = [slide_transposed(i, t, s, p, d, m) for (i, t, s, d), p, m in zip(whole, padding, more, strict=True)]
        filters, channels = weight.dims[1], over(weight.dims[0], groups)
        made = filters.times(groups)
    else:
        if not groups.single:  # whatever they are in another workload
            groups = over(x.dims[1], weight.dims[1])
        windows = [slide_same(i, t, d) for i, t, _, d in whole] if padding is None else [
            slide(i, t, s, p, d) for (i, t, s, d), p in zip(whole, padding, strict=True)]  # fmt: skip
        filters, channels = over(weight.dims[0], groups), weight.dims[1]
        made = weight.dims[0]
    if groups.single and more is None and all(w.is_plain for w in windows):
        return _pointwise(x, weight, call.node.dtype)
    dims = (x.dims[0], made, *(w.places for w in windows))
    return Convolution(dims, call.node.dtype, x, tuple(windows), weight, groups, filters, channels, more is not None)


def _pointwise(x: Value, weight: Value, dtype: str) -> Value:
    """Return a convolution of one tap as a product: filters x channels by channels x places, for each image.

    Sums of few channels are read and written as they are, so that what follows belongs to their kernel.
    """
    places = product(x.dims[2:])
    if is_of_few_terms(weight.dims[1], weight.dims[0], places):
        return reduce("sum", mul(unsqueeze(weight, 0), unsqueeze(from_memory(x), 1)), (2,), False)
    flat = reshape(x, (*x.sizes[:2], places.size))
    filters = squeeze(weight, range(2, len(weight.dims)))
    made = matmul(unsqueeze(filters, 0), flat, dtype)
    return Reshape((x.dims[0], weight.dims[0], *x.dims[2:]), dtype, made)


def _bias(call: OperationCall, value: Value) -> Value:
    if not call.has(2, "bias"):
        return value
    if isinstance(value, Reshape):  # a product: the bias belongs to its kernel
        return replace(value, operand=_bias(call, value.operand))
    bias = call.tensor(2, "bias")
    for _ in value.dims[2:]:
        bias = unsqueeze(bias, -1)
    return add(value, bias)


def _pool(rank: int, kind: str) -> Rule:
    return lambda call: pooled(call, rank, kind)


def pooled(call: OperationCall, rank: int, kind: str, given: Value | None = None) -> Value:
    """Return the pooling of the first operand, or of another value of its extents."""
    x = given or call.floating(0)
    if len(x.dims) == rank + 1:
        return squeeze(_pooled(call, unsqueeze(x, 0), rank, kind), (0,))
    return _pooled(call, x, rank, kind)


def _pooled(call: OperationCall, x: Value, rank: int, kind: str) -> Value:
    taps = _each(call, 1, "kernel_size", rank, 1)
    stride = _each(call, 2, "stride", rank, 1) if call.integers(2, "stride") else taps
    padding, largest = _each(call, 3, "padding", rank, 0), kind == "max"
    dilation = _each(call, 4, "dilation", rank, 1) if largest else [ONE] * rank
    ceil = call.flag(5 if largest else 4, "ceil_mode")
    sides = zip(x.dims[2:], taps, stride, padding, dilation, strict=True)
    windows = tuple(slide(*side, ceil=ceil) for side in sides)
    dims = (*x.dims[:2], *(w.places for w in windows))
    if largest:
        return Pooling(dims, x.dtype, x, windows, "max")
    return _average(call, x, dims, windows, ceil)


def _average(
    call: OperationCall, x: Value, dims: tuple[Extent, ...], windows: tuple[Window, ...], ceil: bool
) -> Value:  # fmt: skip
    divisor, padded = call.operand(6, "divisor_override"), any(w.padding.text != "0" for w in windows)
    if divisor is not None:
        return div(Pooling(dims, x.dtype, x, windows, "sum"), like(x, call.number(6, "divisor_override", 1)))
    if not call.flag(5, "count_include_pad", True) and (padded or ceil):
        return Pooling(dims, x.dtype, x, windows, "sum", "seen")
    if ceil:  # the last window may hang over the padding, too, which does not count
        return Pooling(dims, x.dtype, x, windows, "sum", "padded")
    return div(Pooling(dims, x.dtype, x, windows, "sum"), Size((), x.dtype, product([w.taps for w in windows]).text))


def _adaptive(rank: int, kind: str) -> Rule:
    """Return the rule of a pooling to given extents: first to those that are not 1, then over all of the others."""

    def rule(call: OperationCall) -> Value:
        x = call.floating(0)
        given = call.operand(1, "output_size")
        wanted = given if isinstance(given, tuple) else (given,) * rank
        axes = [k - rank for k, n in enumerate(wanted) if n == 1 and not x.dims[k - rank].single]
        other = {k - rank: extent(n) for k, n in enumerate(wanted) if isinstance(n, int) and n != 1
                 and not fits([x.dims[k - rank]], [n])}  # fmt: skip
        made = _to_places(x, other, rank, kind) if other else x
        if not axes:
            return made
        return mean_of(made, axes, True) if kind == "sum" else reduce("max", made, axes, True)

    return rule


def _to_places(x: Value, wanted: Mapping[int, Extent], rank: int, kind: str) -> Value:
    """Return the pooling to so many places of some dimensions: by windows of one size where that is possible."""
    if all(_is_multiple(x.dims[axis], count) for axis, count in wanted.items()):
        images = x if len(x.dims) == rank + 2 else unsqueeze(x, 0)
        sides = [over(images.dims[k], wanted[k]) if k in wanted else ONE for k in range(-rank, 0)]
        windows = tuple(slide(images.dims[k - rank], side, side, ZERO, ONE) for k, side in enumerate(sides))
        dims = (*images.dims[:2], *(wanted.get(k, images.dims[k]) for k in range(-rank, 0)))
        made: Value = Pooling(dims, x.dtype, images, windows, kind)
        if kind == "sum":
            made = div(made, Size((), x.dtype, product(sides).text))
        return made if images is x else squeeze(made, (0,))
    for axis, count in wanted.items():
        x = _along_one(x, axis % len(x.dims), count, kind)
    return x


def _is_multiple(whole: Extent, count: Extent) -> bool:
    return fits([over(whole, count).times(count)], [whole.size])


def _along_one(x: Value, axis: int, count: Extent, kind: str) -> Value:
    """Return the pooling along one dimension: place i looks at the elements from i n / m to (i + 1) n / m, rounded
    outwards."""
    whole, (length, places) = x.dims[axis], (length_of(x.dims[axis]), length_of(count))
    longest = combined(f"(({whole.text} - 1) // {count.text} + 2)", lambda n, m: (n - 1) // m + 2, whole, count)
    place, tap = position((count, ONE), 0), position((longest,), 0)
    first = compute("{0} * {1} / {2}", place, length, places, dtype="int64")
    end = compute("(({0} + 1) * {1} + {2} - 1) / {2}", place, length, places, dtype="int64")
    where = compute("{0} + {1} < {2} ? {0} + {1} : {2} - 1", first, tap, end, dtype="int64")
    seen, behind = in_one(x, axis, where), len(x.dims) - axis - 1
    if kind == "max":
        return reduce("max", seen, (axis + 1,), False)
    inside = followed(compute("{0} + {1} < {2}", first, tap, end, dtype="bool"), behind)
    total = reduce("sum", compute("{0} ? {1} : {T}(0)", inside, seen, dtype=x.dtype), (axis + 1,), False)
    counted = followed(squeeze(compute("{1} - {0}", first, end, dtype="int64"), (1,)), behind)
    return div(total, cast(counted, x.dtype))


RULES: Mapping[str, Rule] = {
    "convolution": _any_convolution,
    **{f"conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _pool(n, "max") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _pool(n, "sum") for n in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{n}d": _adaptive(n, k) for n in (1, 2, 3) for kind, k in (("avg", "sum"), ("max", "max"))},
}
