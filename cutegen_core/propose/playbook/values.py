"""The reference as indexable values: what each element is, as a function of its coordinates.

A `Value` has symbolic extents (expressions a launch plan evaluates for any workload) beside the extents of the traced
workload. Views move coordinates and never data, so a transposed or broadcast operand is just another way of indexing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from cutegen_core.records.errors import UsageError

COMPUTE_TYPE = {
    "float64": "double", "float32": "float", "float16": "float", "bfloat16": "float",
    "float8_e4m3fn": "float", "float8_e5m2": "float", "int64": "long", "int32": "long",
    "int16": "long", "int8": "long", "uint8": "long", "bool": "bool",
}  # fmt: skip
"""What arithmetic on a dtype is done in: halves in float, integers in 64 bits."""


class NotInPlaybook(UsageError):  # noqa: N818 - it is an answer, not a failure
    """The playbook has no kernel for this reference; the text says what is missing and what is covered."""


@dataclass(frozen=True)
class Extent:
    """A size: an expression of the launch plan, and its value in the traced workload."""

    text: str
    size: int

    def times(self, other: Extent) -> Extent:
        if self.text == "1":
            return other
        return self if other.text == "1" else Extent(f"{self.text} * {other.text}", self.size * other.size)

    def plus(self, other: Extent) -> Extent:
        if self.text == "0":
            return other
        return self if other.text == "0" else Extent(f"({self.text} + {other.text})", self.size + other.size)


ONE = Extent("1", 1)
ZERO = Extent("0", 0)
POSITIONS = "#"
"""Stands for the tensor whose element at offset i is i: a `Load` of it says where an element lies."""


class SizedInt(int):
    """A whole number of a traced graph, with its expression for every workload: `graphs.sizes` finds it."""

    text: str

    @classmethod
    def of(cls, value: float, text: str) -> SizedInt:
        """Return the number with its expression; "": it changes with the sizes in no known way."""
        made = cls(value)
        made.text = text
        return made


class SizedFloat(float):
    """The same of a number that is not whole."""

    text: str

    @classmethod
    def of(cls, value: float, text: str) -> SizedFloat:
        """Return the number with its expression; "": it changes with the sizes in no known way."""
        made = cls(value)
        made.text = text
        return made


Sized = SizedInt | SizedFloat


def text_of(number: float) -> str:
    """Return a number as an expression that holds for every workload.

    Raises:
        NotInPlaybook: it changes with the sizes in no known way.
    """
    if not isinstance(number, Sized):
        return str(number)
    if not number.text:
        raise NotInPlaybook(f"the number {number!r}, which changes with the sizes of the workload in no known way, is "
                            "not in the playbook")  # fmt: skip
    return number.text


def is_constant(number: float) -> bool:
    """Tell whether the number is the same for every workload; one of unknown origin is taken to be."""
    return not isinstance(number, Sized) or number.text == repr(number)


def extent(size: float) -> Extent:
    """Return a whole number of the graph as a size."""
    return Extent(text_of(size), int(size))


def product(extents: Sequence[Extent]) -> Extent:
    """Return the product of sizes; 1 for none."""
    result = ONE
    for extent in extents:
        result = result.times(extent)
    return result


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor-valued expression.

    Attributes:
        dtype: as the reference has it; arithmetic is done in `COMPUTE_TYPE[dtype]`.
    """

    dims: tuple[Extent, ...]
    dtype: str

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dims)

    @property
    def numel(self) -> int:
        return prod(self.sizes)


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """The same number everywhere."""

    number: int | float | bool


@dataclass(frozen=True, eq=False)
class Size(Value):
    """A number that depends on the workload, such as the length of a row, or one over its root."""

    text: str


@dataclass(frozen=True, eq=False)
class Load(Value):
    """A tensor in memory; `strides` are in elements, `offset` is where its first element lies."""

    tensor: str
    strides: tuple[Extent, ...]
    offset: Extent = ZERO

    @property
    def contiguous(self) -> bool:
        step = 1
        for extent, stride in zip(reversed(self.dims), reversed(self.strides), strict=True):
            if extent.size != 1 and stride.size != step:
                return False
            step *= extent.size
        return self.offset.size == 0


@dataclass(frozen=True, eq=False)
class Compute(Value):
    """Pointwise arithmetic: `code` with {0}, {1}, ... for operands, {T} for the type, {f} for a function suffix."""

    code: str
    operands: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Move(Value):
    """A view: operand dimension k is indexed by this value's dimension `sources[k]` (None: always 0)."""

    operand: Value
    sources: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """`kind` ("sum", "max", "min") over `axes` of the operand; reduced dimensions stay, with extent 1."""

    kind: str
    operand: Value
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Accumulated(Value):
    """What a kernel of its own adds up; what follows element by element is computed there, too."""


@dataclass(frozen=True, eq=False)
class Scan(Accumulated):
    """For each element the sum ("sum") or product ("times") of those up to it along `axis`.

    Attributes:
        backwards: of those from it on.
        exclusive: without it.
    """

    kind: str
    operand: Value
    axis: int
    backwards: bool = False
    exclusive: bool = False


@dataclass(frozen=True, eq=False)
class Flip(Value):
    """The operand's elements in the opposite order along `axis`."""

    operand: Value
    axis: int


@dataclass(frozen=True, eq=False)
class Join(Value):
    """Values one after the other along `axis`."""

    pieces: tuple[Value, ...]
    axis: int


@dataclass(frozen=True, eq=False)
class Product(Accumulated):
    """A matrix product: a is (batch..., m, k), b is (batch..., k, n)."""

    a: Value
    b: Value


@dataclass(frozen=True, eq=False)
class DotProductAttention(Value):
    """Softmax of the scaled scores of queries and keys, times the values: (batch..., queries, columns).

    Attributes:
        plain: the same as two products and a softmax between them.
        causal: a query sees no later key.
    """

    q: Value
    k: Value
    v: Value
    scale: Value
    plain: Value
    causal: bool = False


@dataclass(frozen=True, eq=False)
class Reshape(Value):
    """The operand's elements, row-major, in other extents."""

    operand: Value


def load(tensor: str, dtype: str, shape: Sequence[int]) -> Load:
    """Return a contiguous tensor of the signature. An extent of 1 is taken to be 1 in every workload."""
    dims = (ONE if size == 1 else Extent(f"{tensor}.shape[{i}]", size) for i, size in enumerate(shape))
    return contiguous(tensor, dtype, tuple(dims))


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
    return tuple(next((e for e in column if e.size != 1), column[0]) for column in zip(*padded, strict=True))


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
    sources = tuple(
        None if own.size == 1 and dims[lead + k].size != 1 else lead + k for k, own in enumerate(value.dims)
    )
    return Move(dims, value.dtype, value, sources)


def window(value: Value, axis: int, start: Extent, length: Extent) -> Value:
    """Return `length` positions from `start` along one dimension.

    Raises:
        NotInPlaybook: a part of a result that another kernel computes.
    """
    axis %= len(value.dims)
    dims = (*value.dims[:axis], length, *value.dims[axis + 1 :])
    match value:
        case Load():
            stride = value.strides[axis]
            step = Extent(f"{start.text} * {stride.text}", start.size * stride.size)
            return replace(value, dims=dims, offset=value.offset.plus(step if start.size else ZERO))
        case Move():
            if axis not in value.sources:
                return replace(value, dims=dims)
            inner = window(value.operand, value.sources.index(axis), start, length)
            return replace(value, dims=dims, operand=inner)
        case Compute():
            lead = [len(value.dims) - len(o.dims) for o in value.operands]
            parts = (
                window(o, axis - shift, start, length) if axis >= shift and o.dims[axis - shift].size != 1 else o
                for o, shift in zip(value.operands, lead, strict=True)
            )
            return replace(value, dims=dims, operands=tuple(parts))
    raise NotInPlaybook("a part of a reduction or of a product is not in the playbook")


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
                flip(o, axis - shift) if axis >= shift and o.dims[axis - shift].size != 1 else o
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
    return value if tuple(sizes) == value.sizes else _reshaped(value, regroup(value.dims, sizes, inferred))


def plain(value: Value) -> Value:
    """Return the value without the reshapes around it: memory has the same elements in the same order."""
    while isinstance(value, Reshape):
        value = value.operand
    return value


def _reshaped(value: Value, dims: tuple[Extent, ...]) -> Value:
    if isinstance(value, Load) and value.contiguous:
        return contiguous(value.tensor, value.dtype, dims)
    if isinstance(value, Compute) and all(o.sizes == value.sizes or o.numel == 1 for o in value.operands):
        operands = (_reshaped(o, dims) if o.sizes == value.sizes else squeeze_all(o) for o in value.operands)
        return compute(value.code, *operands, dtype=value.dtype)
    return Reshape(dims, value.dtype, value)


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
        while prod(e.size for e in left) != prod(right):
            smaller = prod(e.size for e in left) < prod(right)
            if not (old if smaller else new):
                raise NotInPlaybook("a reshape whose extents do not fit is not in the playbook")
            if smaller:
                left.append(old.pop(0))
            else:
                right.append(new.pop(0))
        result += _split(product(left), right, inferred - len(result))
    return tuple(result)


def _split(whole: Extent, sizes: Sequence[int], inferred: int) -> list[Extent]:
    if len(sizes) == 1:
        return [whole]
    free = inferred if 0 <= inferred < len(sizes) else 0
    rest = product([extent(size) for i, size in enumerate(sizes) if i != free])
    divisor = rest.text if rest.text.isidentifier() or rest.text.isdigit() else f"({rest.text})"
    remainder = Extent(f"(({whole.text}) // {divisor})", sizes[free] if sizes else 1)
    return [remainder if i == free else extent(size) for i, size in enumerate(sizes)]
