"""Rules of softmax and of the norms, in their numerically stable form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from cutegen_core.propose.playbook.call import OperationCall, Rule
from cutegen_core.propose.playbook.formulas import add, apply, div, like, mul, rounded, sub
from cutegen_core.propose.playbook.rules.reductions import mean_of, norm_of
from cutegen_core.propose.playbook.rules.taken import followed
from cutegen_core.propose.playbook.values import ONE, ZERO, Load, Value, compute, reduce, reshape, window

_KEPT, _KEPT_TOGETHER = 1 << 16, 1 << 18
"""Elements of which a kernel surely keeps no more from one pass to the next; of those that lie side by side."""


def _softmax(call: OperationCall, log: bool) -> Value:
    x, axes = rounded(call.floating(0)), call.integers(1, "dim")
    shifted = sub(x, reduce("max", x, axes, True))
    total = reduce("sum", apply("exp", shifted), axes, True)
    if log:
        return sub(shifted, apply("log", total))
    # The sum is one at least: nothing overflows, and an element needs no division.
    return mul(apply("exp", shifted), compute("{T}(1) / {0}", total, dtype=x.dtype))


def _layer_norm(call: OperationCall) -> Value:
    x = call.tensor(0)
    axes = range(-len(call.integers(1, "normalized_shape")), 0)
    value = _normalised(x, axes, call.number(4, "eps", 1e-5), centred=True)
    return _affine(call, value, 2, 3, lambda v: v)


def _rms_norm(call: OperationCall) -> Value:
    x = call.tensor(0)
    axes = range(-len(call.integers(1, "normalized_shape")), 0)
    eps = call.operand(3, "eps")
    if not isinstance(eps, int | float):
        eps = 2.0**-52 if x.dtype == "float64" else 2.0**-23  # of the arithmetic: that of halves is in float
    return _affine(call, _normalised(x, axes, eps, centred=False), 2, -1, lambda v: v)


def _group_norm(call: OperationCall) -> Value:
    x, (groups,) = call.tensor(0), call.integers(1, "num_groups")
    sizes = (x.sizes[0], groups, x.sizes[1] // groups, *x.sizes[2:])
    grouped = reshape(x, sizes, inferred=2)
    value = _normalised(grouped, range(2, len(sizes)), call.number(4, "eps", 1e-5), centred=True)

    def shaped(v: Value) -> Value:
        return followed(reshape(v, sizes[1:3], inferred=1), len(sizes) - 3)

    return reshape(_affine(call, value, 2, 3, shaped), x.sizes)


def _batch_norm(call: OperationCall) -> Value:
    return _channel_norm(call, (0,))


def _instance_norm(call: OperationCall) -> Value:
    return _channel_norm(call, ())


def _channel_norm(call: OperationCall, with_channel: tuple[int, ...]) -> Value:
    """Return a norm of each channel, over its places and the axes given: by what it holds, or by running statistics.

    In training the running statistics are updated, too; they are no output.
    """
    x, eps = call.tensor(0), call.number(7, "eps", 1e-5)

    def shaped(v: Value) -> Value:
        return followed(v, len(x.dims) - 2)

    if call.flag(5, "training"):
        value = _normalised(x, (*with_channel, *range(2, len(x.dims))), eps, centred=True)
    else:
        mean, variance = shaped(call.tensor(3)), shaped(call.tensor(4))
        value = mul(sub(x, mean), apply("rsqrt", add(variance, like(x, eps))))
    return _affine(call, value, 1, 2, shaped)


def _weight_norm(call: OperationCall) -> Value:
    """Return vectors of the lengths that are given: what one index of a dimension has is a vector."""
    v, lengths, axis = call.tensor(0), call.tensor(1), int(call.number(2, "dim", 0))
    axes = [k for k in range(len(v.dims)) if axis == -1 or k != axis % len(v.dims)]
    return mul(v, div(lengths, norm_of(v, 2, axes, True)))


def _renorm(call: OperationCall) -> Value:
    """Return the operand with the vectors of one dimension no longer than the number given."""
    x, (axis,) = call.tensor(0), call.integers(2, "dim")
    axes = [k for k in range(len(x.dims)) if k != axis % len(x.dims)]
    length, most = norm_of(x, call.number(1, "p", 2), axes, True), like(x, call.number(3, "maxnorm", 1))
    return mul(x, compute("{0} > {1} ? {1} / ({0} + {T}(1e-7)) : {T}(1)", length, most, dtype=x.dtype))


def _normalised(x: Value, axes: Sequence[int], eps: float, centred: bool) -> Value:
    """Return (x - mean) / sqrt(mean of squares + eps), so that a large mean does no harm: in two passes where a kernel
    keeps what it reads, else in one."""
    axes = sorted(axis % len(x.dims) for axis in axes)
    kept = _KEPT_TOGETHER if axes == list(range(axes[0], len(x.dims))) else _KEPT
    if centred and len(axes) > 1 and isinstance(x, Load) and prod(x.dims[axis].size for axis in axes) > kept:
        moved, variance = _moved(x, axes)
    else:
        moved = sub(x, mean_of(x, axes, True)) if centred else x
        variance = mean_of(apply("square", moved), axes, True)
    return mul(moved, apply("rsqrt", add(variance, like(x, eps))))


def _moved(x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Return x - mean, and its variance, of one pass over x less a pivot: the mean of its first line.

    What the subtraction of squares loses grows with the pivot's distance from the mean. An element so far away that it
    moves the pivot is in the line, so it makes the variance large as well.
    """
    line = x
    for axis in axes[:-1]:
        line = window(line, axis, ZERO, ONE)
    from_pivot = sub(x, mean_of(line, axes, True))
    mean, squares = mean_of(from_pivot, axes, True), mean_of(apply("square", from_pivot), axes, True)
    variance = compute("max_of({0}, {T}(0))", sub(squares, apply("square", mean)), dtype=x.dtype)
    return sub(from_pivot, mean), variance


def _affine(call: OperationCall, value: Value, weight: int, bias: int, shaped: Callable[[Value], Value]) -> Value:
    """Return the value times the weight, plus the bias, if the call has them; their positions among its operands, -1:
    never."""
    if weight >= 0 and call.has(weight, "weight"):
        value = mul(value, shaped(call.tensor(weight, "weight")))
    if bias >= 0 and call.has(bias, "bias"):
        value = add(value, shaped(call.tensor(bias, "bias")))
    return value


RULES: Mapping[str, Rule] = {
    "softmax": lambda c: _softmax(c, False), "_softmax": lambda c: _softmax(c, False),
    "log_softmax": lambda c: _softmax(c, True), "_log_softmax": lambda c: _softmax(c, True),
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "group_norm": _group_norm, "batch_norm": _batch_norm,
    "instance_norm": _instance_norm, "_weight_norm": _weight_norm, "renorm": _renorm,
}  # fmt: skip
