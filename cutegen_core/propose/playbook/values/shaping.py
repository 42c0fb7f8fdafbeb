"""Make values of other values: tensors, arithmetic, broadcasts, moved dimensions, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from cutegen_core.propose.playbook.values.extents import (
    ONE,
    ZERO,
    Extent,
    NotInPlaybook,
    agree,
    is_constant,
    product,
    repeats,
    text_of,
)
from cutegen_core.propose.playbook.values.nodes import (
    POSITIONS,
    Compute,
    Constant,
    Load,
    Move,
    Reduce,
    Size,
    Value,
)
from cutegen_core.propose.playbook.values.sharing import walk

_OF_ALIKE = ("sum", "max", "min", "times")
"""Reductions of which it is known what they make of elements that are all alike."""
_OF_NOTHING = {"sum": 0, "times": 1}
"""What reductions make of no elements."""


def load(tensor: str, dtype: str, shape: Sequence[int]) -> Load:
    """Return a contiguous tensor of the signature. An extent of 1 that is never seen longer is always 1."""
    dims = (Extent(f"{tensor}.shape[{i}]", size) for i, size in enumerate(shape))
    return contiguous(tensor, dtype, tuple(ONE if dim.single else dim for dim in dims))


def contiguous(tensor: str, dtype: str, dims: tuple[Extent, ...]) -> Load:
    """Return a tensor stored row-major with these extents."""
    strides = tuple(product(dims[i + 1 :]) for i in range(len(dims)))
    return Load(dims, dtype, tensor, strides)


def position(dims: tuple[Extent, ...], axis: int) -> Load:
    """Return where each element lies along one dimension."""
    strides = tuple(ONE if k == axis % len(dims) else ZERO for k in range(len(dims)))
    return Load(dims, "int64", POSITIONS, strides)


def constant(number: int | float | bool, dtype: str) -> Value:
    """Return a number as a tensor of no dimensions; one that follows the sizes is computed by the plan."""
    return Constant((), dtype, number) if is_constant(number) else Size((), dtype, text_of(number))


def broadcast(values: Sequence[Value]) -> tuple[Extent, ...]:
    """Return the common shape, by PyTorch's rule; of two equal extents keep the first one's expression."""
    rank = max(len(v.dims) for v in values)
    padded = [(ONE,) * (rank - len(v.dims)) + v.dims for v in values]
    return tuple(_longest(column) for column in zip(*padded, strict=True))


def _longest(column: Sequence[Extent]) -> Extent:
    """Return the first extent that is not 1: in the traced workload, else in some other one.

    Raises:
        NotInPlaybook: some extent is 1 at one workload only, where it is repeated.
    """
    full = next((e for e in column if e.size != 1), next((e for e in column if not e.single), column[0]))
    for own in column:
        if not (own.single or agree([own], [full])):
            raise NotInPlaybook(f"an operand of size {own.text}, which is repeated along {full.text} at some sizes "
                                "only, is not in the playbook")  # fmt: skip
    return full


def compute(code: str, *operands: Value, dtype: str) -> Compute:
    """Return pointwise arithmetic with broadcasting."""
    return Compute(broadcast(operands), dtype, code, operands)


def permute(value: Value, order: Sequence[int]) -> Value:
    """Return the value with dimension i being dimension order[i] of `value`."""
    positions = [o % len(value.dims) for o in order]
    if positions == sorted(positions):
        return value
    sources = tuple(positions.index(k) for k in range(len(positions)))
    return Move(tuple(value.dims[o] for o in positions), value.dtype, value, sources)


def unsqueeze(value: Value, axis: int) -> Value:
    """Add an extent of 1."""
    axis %= len(value.dims) + 1
    sources = tuple(k if k < axis else k + 1 for k in range(len(value.dims)))
    return Move((*value.dims[:axis], ONE, *value.dims[axis:]), value.dtype, value, sources)


def squeeze(value: Value, axes: Sequence[int]) -> Value:
    """Remove extents of 1 at `axes`."""
    kept = [i for i in range(len(value.dims)) if i not in axes]
    sources = tuple(kept.index(i) if i in kept else None for i in range(len(value.dims)))
    return Move(tuple(value.dims[i] for i in kept), value.dtype, value, sources)


def expand(value: Value, dims: tuple[Extent, ...]) -> Value:
    """Broadcast to `dims`."""
    lead = len(dims) - len(value.dims)
    sources = tuple(None if repeats(own, dims[lead + k]) else lead + k for k, own in enumerate(value.dims))
    return Move(dims, value.dtype, value, sources)


def reduce(kind: str, value: Value, axes: Sequence[int], keepdim: bool) -> Value:
    """Return a reduction; empty `axes` means all. A number of no dimensions stays as it is."""
    rank = len(value.dims)
    if not rank:
        return value
    where = tuple(sorted({a % rank for a in axes})) or tuple(range(rank))
    dims = tuple(ONE if i in where else d for i, d in enumerate(value.dims))
    if kind in _OF_NOTHING and any(value.dims[a].nothing for a in where):
        reduced = expand(constant(_OF_NOTHING[kind], value.dtype), dims)
    else:
        reduced = _reduced(kind, value, where, dims)
    return reduced if keepdim else squeeze(reduced, where)


def _reduced(kind: str, value: Value, where: Sequence[int], dims: tuple[Extent, ...]) -> Value:
    """Return a reduction of these dimensions, which stay with an extent of 1."""
    longer = tuple(a for a in where if value.dims[a].text != "1")
    alike = [a for a in longer if kind in _OF_ALIKE and not varies(value, a)]
    if kind == "times":  # of so many factors as the plan has to know
        alike = [a for a in alike if value.dims[a].text.isdigit()]
    reduced = _first_along(value, alike) if alike else value
    rest = tuple(a for a in longer if a not in alike)
    if rest:
        reduced = Reduce(dims, value.dtype, kind, reduced, rest)
    if alike and kind == "sum":
        count = Size((), value.dtype, product([value.dims[a] for a in alike]).text)
        reduced = compute("{0} * {1}", reduced, count, dtype=value.dtype)
    if alike and kind == "times":
        factors = prod(value.dims[a].size for a in alike)
        reduced = power(reduced, factors, lambda a, b: compute("{0} * {1}", a, b, dtype=value.dtype))
    return reduced


def power(value: Value, times: int, multiply: Callable[[Value, Value], Value]) -> Value:
    """Return the product of so many factors that are all the value, at least one."""
    if times == 1:
        return value
    half = power(value, times // 2, multiply)
    square = multiply(half, half)
    return multiply(square, value) if times % 2 else square


def varies(value: Value, axis: int) -> bool:
    """Return whether elements differ along a dimension, as far as the expression tells."""
    return _varies(value, axis, set())


def _varies(value: Value, axis: int, seen: set[tuple[Value, int]]) -> bool:
    """Return the same, without looking again at parts that do not: an expression may have them many times."""
    if (value, axis) in seen:
        return False
    seen.add((value, axis))
    match value:
        case Constant() | Size():
            return False
        case Compute():
            own = [(o, axis - len(value.dims) + len(o.dims)) for o in value.operands]
            return any(at >= 0 and o.dims[at].text != "1" and _varies(o, at, seen) for o, at in own)
        case Move():
            return any(_varies(value.operand, k, seen) for k, source in enumerate(value.sources) if source == axis)
    return True


def _first_along(value: Value, axes: Sequence[int]) -> Value:
    """Return the first of the elements along these dimensions, of which all are alike."""
    dims = tuple(ONE if k in axes else d for k, d in enumerate(value.dims))
    return Move(dims, value.dtype, value, tuple(None if k in axes else k for k in range(len(dims))))


def reductions(value: Value) -> Iterator[Reduce]:
    """Yield the reductions under `value`, outermost first, without those inside them."""
    return (part for part in walk(value, Compute, Move) if isinstance(part, Reduce))


def squeeze_all(value: Value) -> Value:
    """Return a value of one element, without dimensions."""
    return squeeze(value, range(len(value.dims)))
