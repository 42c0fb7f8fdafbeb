"""Parts of values, and values in the opposite order: of tensors in memory they are views."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from cutegen_core.propose.playbook.values.extents import (
    ZERO,
    Extent,
    agree,
    combined,
    extent,
    product,
)
from cutegen_core.propose.playbook.values.nodes import (
    Compute,
    Flip,
    Load,
    Move,
    Product,
    Reduce,
    Reshape,
    Scan,
    Taken,
    Value,
    Viewed,
)
from cutegen_core.propose.playbook.values.reshaping import parts_of, reshaped
from cutegen_core.propose.playbook.values.shaping import unsqueeze
from cutegen_core.propose.playbook.values.sharing import shared, walk

_MANY = 48


@dataclass(frozen=True)
class _Cut:
    """A part of a dimension: `length` positions from `start`, `step` apart."""

    start: Extent
    length: Extent
    step: int = 1

    def of(self, tensor: Load, axis: int) -> Load:
        own, strides = tensor.strides[axis], list(tensor.strides)
        if self.step != 1:
            strides[axis] = own.times(Extent(str(self.step), self.step))
        start = ZERO if self.start.nothing else self.start.times(own)
        return replace(tensor, strides=tuple(strides), offset=tensor.offset.plus(start))


def window(value: Value, axis: int, start: Extent, length: Extent) -> Value:
    """Return `length` positions from `start` along one dimension."""
    return _part(value, axis % len(value.dims), _Cut(start, length))


def stride(value: Value, axis: int, step: int) -> Value:
    """Return every `step`-th position along one dimension, from the first one on."""
    whole = value.dims[axis % len(value.dims)]
    length = combined(f"(({whole.text} + {step - 1}) // {step})", lambda n: -(-n // step), whole)
    return _part(value, axis % len(value.dims), _Cut(ZERO, length, step))


def diagonal(value: Value) -> Value:
    """Return the diagonal of the first two dimensions as the last one."""
    rows, columns = value.dims[:2]
    shorter = rows if agree([rows], [columns]) else combined(f"min({rows.text}, {columns.text})", min, rows, columns)
    dims = (*value.dims[2:], shorter)

    def view(tensor: Load) -> Load:
        (a, b), rest = tensor.strides[:2], tensor.strides[2:]
        return replace(tensor, dims=dims, strides=(*rest, a.plus(b)))

    return _viewed(value, dims, view)


@shared
def windows(value: Value, axis: int, length: int, step: int) -> Value:
    """Return windows of `length` positions along a dimension, each `step` behind the one before, as one more dimension.

    Args:
        axis: counted from the first dimension; its extent becomes the number of windows.
    """
    whole, own, by = value.dims[axis], extent(length), extent(step)
    room = combined(f"({whole.text} - {own.text})", operator.sub, whole, own)
    count = combined(f"({room.text} // {by.text} + 1)", lambda n, s: n // s + 1, room, by)
    dims = (*value.dims[:axis], count, *value.dims[axis + 1 :], own)

    def view(tensor: Load) -> Load:
        strides = list(tensor.strides)
        strides[axis] = strides[axis].times(by)
        return replace(tensor, dims=dims, strides=(*strides, tensor.strides[axis]))

    match value:
        case Move() if axis not in value.sources:
            return replace(value, dims=dims)
        case Move():
            source = value.sources.index(axis)
            operand = windows(value.operand, source, length, step)
            return replace(value, dims=dims, operand=operand, sources=(*value.sources, len(value.dims)))
        case Compute():
            operands = tuple(_windows_along(o, value, axis, length, step) for o in value.operands)
            return replace(value, dims=dims, operands=operands)
    return _viewed(value, dims, view)


def _windows_along(operand: Value, whole: Value, axis: int, length: int, step: int) -> Value:
    """Return an operand's windows; one that is broadcast along the dimension has one element in each."""
    own = axis - len(whole.dims) + len(operand.dims)
    if own < 0 or operand.dims[own].single:
        return unsqueeze(operand, len(operand.dims))
    return windows(operand, own, length, step)


def _part(value: Value, axis: int, cut: _Cut) -> Value:
    """Return a part of a value, of one that is made of many in memory: two parts of it would be twice as many, and
    so on with each step of a loop."""
    many = next(islice(walk(value, Compute, Move), _MANY, None), None) is not None
    return _viewed_part(value, axis, cut) if many else _cut(value, axis, cut)


@shared
def _cut(value: Value, axis: int, cut: _Cut) -> Value:
    """Return the value with a part of one dimension."""
    dims = (*value.dims[:axis], cut.length, *value.dims[axis + 1 :])
    match value:
        case Move():
            if axis not in value.sources:
                return replace(value, dims=dims)
            return replace(value, dims=dims, operand=_cut(value.operand, value.sources.index(axis), cut))
        case Compute():
            return replace(value, dims=dims, operands=tuple(_cut_along(o, value, axis, cut) for o in value.operands))
        case Taken():
            places = tuple(place and _cut_along(place, value, axis, cut) for place in value.places)
            operand = value.operand
            for own, source in enumerate(value.sources):
                operand = _cut(operand, own, cut) if source == axis else operand
            return replace(value, dims=dims, operand=operand, places=places)
        case Reduce() if axis not in value.axes:
            return replace(value, dims=dims, operand=_cut(value.operand, axis, cut))
        case Product():
            a, b = (_cut_factor(factor, axis, cut, value) for factor in (value.a, value.b))
            return replace(value, dims=dims, a=a, b=b)
        case Reshape() if (inner := _cut_operand(value, axis, cut)) is not None:
            return reshaped(inner, dims)
    return _viewed_part(value, axis, cut)


def _viewed_part(value: Value, axis: int, cut: _Cut) -> Value:
    dims = (*value.dims[:axis], cut.length, *value.dims[axis + 1 :])
    return _viewed(value, dims, lambda tensor: replace(cut.of(tensor, axis), dims=dims))


def _viewed(value: Value, dims: tuple[Extent, ...], view: Callable[[Load], Load]) -> Value:
    """Return a view, of these extents, of what is in memory, or will be."""
    match value:
        case Load():
            return view(value)
        case Viewed():
            return Viewed(dims, value.dtype, value.operand, lambda tensor: view(value.view(tensor)))
    return Viewed(dims, value.dtype, value, view)


def _cut_along(operand: Value, whole: Value, axis: int, cut: _Cut) -> Value:
    """Return the part of an operand that a part of the whole has; one that is broadcast there stays."""
    own = axis - len(whole.dims) + len(operand.dims)
    return operand if own < 0 or operand.dims[own].single else _cut(operand, own, cut)


def _cut_operand(value: Reshape, axis: int, cut: _Cut) -> Value | None:
    """Return what a part of a reshape is made of, where it is one of a dimension of the operand, too, else None."""
    parts, first = parts_of(value.operand.dims, value.dims), 0
    for own_axis, own in enumerate(parts or ()):
        if first == axis and (len(own) == 1 or cut.step == 1):
            inner = product(own[1:])
            return _cut(value.operand, own_axis, _Cut(cut.start.times(inner), cut.length.times(inner), cut.step))
        first += len(own)
    return None


def _cut_factor(factor: Value, axis: int, cut: _Cut, product: Product) -> Value:
    """Return what a part of a product needs of a factor: its part, or all of it along the dimension that it sums."""
    of_the_other = len(product.dims) - (1 if factor is product.a else 2)
    own = axis - len(product.dims) + len(factor.dims)
    if axis == of_the_other or own < 0 or factor.dims[own].single:
        return factor
    return _cut(factor, own, cut)


@shared
def flip(value: Value, axis: int) -> Value:
    """Return the elements in the opposite order along a dimension; twice is not at all."""
    axis %= len(value.dims)
    match value:
        case Flip() if value.axis == axis:
            return value.operand
        case Scan() if value.axis == axis:
            return replace(value, operand=flip(value.operand, axis), backwards=not value.backwards)
        case Compute():
            lead = [len(value.dims) - len(o.dims) for o in value.operands]
            flipped = (
                flip(o, axis - shift) if axis >= shift and not o.dims[axis - shift].single else o
                for o, shift in zip(value.operands, lead, strict=True)
            )
            return replace(value, operands=tuple(flipped))
    return Flip(value.dims, value.dtype, value, partial(backwards, axis=axis), axis)


def backwards(value: Load, axis: int) -> Load:
    """Return a tensor in memory as it is addressed from its end along a dimension."""
    length, stride = value.dims[axis], value.strides[axis]
    last = combined(f"({length.text} - 1) * {stride.text}", lambda n, step: (n - 1) * step, length, stride)
    strides = (*value.strides[:axis], combined(f"-({stride.text})", operator.neg, stride), *value.strides[axis + 1 :])
    return replace(value, strides=strides, offset=value.offset.plus(last))
