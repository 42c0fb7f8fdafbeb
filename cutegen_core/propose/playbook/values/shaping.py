"""Make values of other values: views, broadcasts, reductions, windows, other extents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cutegen_core.propose.playbook.values.extents import (
    ONE,
    ZERO,
    Extent,
    NotInPlaybook,
    agree,
    combined,
    extent,
    fits,
    is_constant,
    is_less,
    product,
    repeats,
    text_of,
)
from cutegen_core.propose.playbook.values.nodes import (
    POSITIONS,
    Compute,
    Constant,
    Flip,
    Load,
    Move,
    Product,
    Reduce,
    Reshape,
    Scan,
    Size,
    Value,
)

_NO_PART = "a part of a scan, a convolution or a reshaped result is not in the playbook"


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
    """Return the first extent that is not 1: in the traced workload, else in some other one."""
    return next((e for e in column if e.size != 1), next((e for e in column if not e.single), column[0]))


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
        start = Extent(f"{self.start.text} * {own.text}", self.start.size * own.size) if self.start.size else ZERO
        return replace(tensor, strides=tuple(strides), offset=tensor.offset.plus(start))


def window(value: Value, axis: int, start: Extent, length: Extent) -> Value:
    """Return `length` positions from `start` along one dimension.

    Raises:
        NotInPlaybook: a part of a result that another kernel computes.
    """
    return _cut(value, axis % len(value.dims), _Cut(start, length))


def stride(value: Value, axis: int, step: int) -> Value:
    """Return every `step`-th position along one dimension, from the first one on; raises as `window` does."""
    whole = value.dims[axis % len(value.dims)]
    length = combined(
        f"(({whole.text} + {step - 1}) // {step})", whole, Extent(str(step), step), lambda n, s: -(-n // s)
    )
    return _cut(value, axis % len(value.dims), _Cut(ZERO, length, step))


def diagonal(value: Value) -> Value:
    """Return the diagonal of the first two dimensions as the last one, of a square matrix in memory.

    Raises:
        NotInPlaybook: it is computed, or not square.
    """
    if not isinstance(value, Load) or not agree(value.dims[:1], value.dims[1:2]):
        raise NotInPlaybook("the diagonal of what is computed, or of what is not square, is not in the playbook")
    (a, b), rest = value.strides[:2], value.strides[2:]
    return replace(value, dims=(*value.dims[2:], value.dims[0]), strides=(*rest, a.plus(b)))


def _cut(value: Value, axis: int, cut: _Cut) -> Value:
    """Return the value with a part of one dimension."""
    dims = (*value.dims[:axis], cut.length, *value.dims[axis + 1 :])
    match value:
        case Load():
            return replace(cut.of(value, axis), dims=dims)
        case Move():
            if axis not in value.sources:
                return replace(value, dims=dims)
            return replace(value, dims=dims, operand=_cut(value.operand, value.sources.index(axis), cut))
        case Compute():
            lead = [len(value.dims) - len(o.dims) for o in value.operands]
            parts = (
                _cut(o, axis - shift, cut) if axis >= shift and not o.dims[axis - shift].single else o
                for o, shift in zip(value.operands, lead, strict=True)
            )
            return replace(value, dims=dims, operands=tuple(parts))
        case Reduce() if axis not in value.axes:
            return replace(value, dims=dims, operand=_cut(value.operand, axis, cut))
        case Product():
            a, b = (_cut_factor(factor, axis, cut, value) for factor in (value.a, value.b))
            return replace(value, dims=dims, a=a, b=b)
        case Reshape():
            return reshaped(_cut_operand(value, axis, cut), dims)
    raise NotInPlaybook(_NO_PART)


def _cut_operand(value: Reshape, axis: int, cut: _Cut) -> Value:
    """Return what a part of a reshape is made of, where it is a part of one dimension of the operand, too."""
    parts, first = _parts(value.operand.dims, value.dims), 0
    for own_axis, own in enumerate(parts or ()):
        if first == axis and (len(own) == 1 or cut.step == 1):
            inner = product(own[1:])
            return _cut(value.operand, own_axis, _Cut(cut.start.times(inner), cut.length.times(inner), cut.step))
        first += len(own)
    raise NotInPlaybook(_NO_PART)


def _cut_factor(factor: Value, axis: int, cut: _Cut, product: Product) -> Value:
    """Return what a part of a product needs of a factor: its part, or all of it along the dimension that it sums."""
    of_the_other = len(product.dims) - (1 if factor is product.a else 2)
    own = axis - len(product.dims) + len(factor.dims)
    if axis == of_the_other or own < 0 or factor.dims[own].single:
        return factor
    return _cut(factor, own, cut)


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
    return Flip(value.dims, value.dtype, value, axis)


def backwards(value: Load, axis: int) -> Load:
    """Return a tensor in memory as it is addressed from its end along a dimension."""
    length, stride = value.dims[axis], value.strides[axis]
    last = Extent(f"({length.text} - 1) * {stride.text}", (length.size - 1) * stride.size)
    strides = (*value.strides[:axis], Extent(f"-({stride.text})", -stride.size), *value.strides[axis + 1 :])
    return replace(value, strides=strides, offset=value.offset.plus(last))


def reduce(kind: str, value: Value, axes: Sequence[int], keepdim: bool) -> Value:
    """Return a reduction; empty `axes` means all."""
    rank = len(value.dims)
    where = tuple(sorted({a % rank for a in axes})) or tuple(range(rank))
    longer = tuple(a for a in where if value.dims[a].text != "1")
    if not longer:
        return value if keepdim else squeeze(value, where)
    dims = tuple(ONE if i in where else d for i, d in enumerate(value.dims))
    reduced = Reduce(dims, value.dtype, kind, value, longer)
    return reduced if keepdim else squeeze(reduced, where)


def reductions(value: Value) -> Iterator[Reduce]:
    """Yield the reductions under `value`, outermost first, without those inside them."""
    if isinstance(value, Reduce):
        yield value
    elif isinstance(value, Compute):
        for operand in value.operands:
            yield from reductions(operand)
    elif isinstance(value, Move):
        yield from reductions(value.operand)


def reshape(value: Value, sizes: Sequence[int], inferred: int = -1) -> Value:
    """Return the same elements, row-major, in other extents; `inferred` is the position that PyTorch works out."""
    return value if fits(value.dims, sizes) else reshaped(value, regroup(value.dims, sizes, inferred))


def plain(value: Value) -> Value:
    """Return the value without the reshapes around it: memory has the same elements in the same order."""
    while isinstance(value, Reshape):
        value = value.operand
    return value


def reshaped(value: Value, dims: tuple[Extent, ...]) -> Value:
    """Return the same elements, row-major, in these extents; a view of memory where it can be one."""
    value = plain(value)
    if agree(value.dims, dims):
        return value
    if isinstance(value, Load) and value.contiguous:
        return contiguous(value.tensor, value.dtype, dims)
    if isinstance(value, Load | Move):
        parts = _parts(value.dims, dims)
        if parts is not None:
            return _in_parts(value, dims, parts)
    if isinstance(value, Compute) and all(agree(o.dims, value.dims) or _is_number(o) for o in value.operands):
        operands = (reshaped(o, dims) if agree(o.dims, value.dims) else squeeze_all(o) for o in value.operands)
        return compute(value.code, *operands, dtype=value.dtype)
    return Reshape(dims, value.dtype, value)


def _parts(whole: Sequence[Extent], dims: Sequence[Extent]) -> list[tuple[Extent, ...]] | None:
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


def squeeze_all(value: Value) -> Value:
    """Return a value of one element, without dimensions."""
    return squeeze(value, range(len(value.dims)))


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
    remainder = Extent(f"(({whole.text}) // {divisor})", sizes[free] if sizes else 1)
    return [remainder if i == free else extent(size) for i, size in enumerate(sizes)]
