"""Other extents for the same elements: a view of memory where it can be one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen_core.propose.playbook.values.extents import (
    Extent,
    NotInPlaybook,
    agree,
    extent,
    fits,
    is_less,
    product,
)
from cutegen_core.propose.playbook.values.nodes import Compute, Load, Move, Reshape, Value
from cutegen_core.propose.playbook.values.shaping import compute, contiguous, squeeze_all
from cutegen_core.propose.playbook.values.sharing import shared


def reshape(value: Value, sizes: Sequence[int], inferred: int = -1) -> Value:
    """Return the same elements, row-major, in other extents; `inferred` is the position that PyTorch works out."""
    return value if fits(value.dims, sizes) else reshaped(value, regroup(value.dims, sizes, inferred))


def plain(value: Value) -> Value:
    """Return the value without the reshapes around it: memory has the same elements in the same order."""
    while isinstance(value, Reshape):
        value = value.operand
    return value


@shared
def reshaped(value: Value, dims: tuple[Extent, ...]) -> Value:
    """Return the same elements, row-major, in these extents; a view of memory where it can be one."""
    value = plain(value)
    if agree(value.dims, dims):
        return value
    if isinstance(value, Load) and value.contiguous:
        return contiguous(value.tensor, value.dtype, dims)
    if isinstance(value, Load | Move):
        parts = parts_of(value.dims, dims)
        if parts is not None:
            return _in_parts(value, dims, parts)
    if isinstance(value, Compute) and all(agree(o.dims, value.dims) or _is_number(o) for o in value.operands):
        operands = (reshaped(o, dims) if agree(o.dims, value.dims) else squeeze_all(o) for o in value.operands)
        return compute(value.code, *operands, dtype=value.dtype)
    return Reshape(dims, value.dtype, value)


def parts_of(whole: Sequence[Extent], dims: Sequence[Extent]) -> list[tuple[Extent, ...]] | None:
    """Return what each dimension is divided into, slowest first; None where some are put together."""
    left, parts = list(dims), []
    for one in whole:
        own: list[Extent] = []
        while left and not (own and agree([product(own)], [one])):
            own.append(left.pop(0))
        if not agree([product(own)], [one]):
            return None
        parts.append(tuple(own))
    return None if left else parts


def _in_parts(value: Load | Move, dims: tuple[Extent, ...], parts: Sequence[tuple[Extent, ...]]) -> Value:
    """Return the value with every dimension divided, which is a view of the same memory."""
    if isinstance(value, Load):
        strides = (
            product(own[i + 1 :]).times(step) if step.size else step
            for own, step in zip(parts, value.strides, strict=True)
            for i in range(len(own))
        )
        return replace(value, dims=dims, strides=tuple(strides))
    starts = [sum(map(len, parts[:k])) for k in range(len(parts))]
    inner: list[Extent] = []
    sources: list[int | None] = []
    for source, own_dim in zip(value.sources, value.operand.dims, strict=True):
        inner += [own_dim] if source is None else parts[source]
        sources += [None] if source is None else range(starts[source], starts[source] + len(parts[source]))
    divided = value.operand if agree(inner, value.operand.dims) else reshaped(value.operand, tuple(inner))
    return Move(dims, value.dtype, divided, tuple(sources))


def _is_number(value: Value) -> bool:
    return all(dim.single for dim in value.dims)


def regroup(dims: Sequence[Extent], sizes: Sequence[int], inferred: int = -1) -> tuple[Extent, ...]:
    """Return symbolic extents for a row-major reshape: equal sizes keep their expression, merged ones multiply.

    A split extent takes its parts as fixed numbers, but the inferred one (else the first) as what is left.
    """
    result: list[Extent] = []
    old, new = list(dims), list(sizes)
    while old or new:
        left, right = [old.pop(0)] if old else [], [new.pop(0)] if new else []
        while not agree([product(left)], [_product(right)]):
            smaller = is_less(product(left), _product(right))
            if not (old if smaller else new):
                raise NotInPlaybook("a reshape whose extents do not fit is not in the playbook")
            if smaller:
                left.append(old.pop(0))
            else:
                right.append(new.pop(0))
        result += _split(product(left), right, inferred - len(result))
    return tuple(result)


def _product(sizes: Sequence[int]) -> Extent:
    """Return how many elements there are with these sizes, without an expression; a plain number may be one traced."""
    return product([Extent("", size) for size in sizes])


def _split(whole: Extent, sizes: Sequence[int], inferred: int) -> list[Extent]:
    if len(sizes) == 1:
        return [whole]
    free = inferred if 0 <= inferred < len(sizes) else 0
    rest = product([extent(size) for i, size in enumerate(sizes) if i != free])
    divisor = rest.text if rest.text.isidentifier() or rest.text.isdigit() else f"({rest.text})"
    remainder = Extent(f"(({whole.text}) // {divisor})", sizes[free] if sizes else 1, whole.may_be_none)
    return [remainder if i == free else extent(size) for i, size in enumerate(sizes)]
