"""The kinds of values: what each element of a tensor is, as a function of its coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from cutegen_core.propose.playbook.values.extents import (
    ZERO,
    Extent,
    agree,
    in_order,
)

COMPUTE_TYPE = {
    "float64": "double", "float32": "float", "float16": "float", "bfloat16": "float",
    "float8_e4m3fn": "float", "float8_e5m2": "float", "int64": "long", "int32": "long",
    "int16": "long", "int8": "long", "uint8": "long", "bool": "bool",
}  # fmt: skip
"""What arithmetic on a dtype is done in: halves in float, integers in 64 bits."""
ELEMENT = {
    "float64": "double",
    "float32": "float",
    "float16": "cute::half_t",
    "bfloat16": "cute::bfloat16_t",
    "float8_e4m3fn": "cute::float_e4m3_t",
    "float8_e5m2": "cute::float_e5m2_t",
    "bool": "uint8_t",
    **{name: f"{name}_t" for name in ("int64", "int32", "int16", "int8", "uint8")},
}
"""What a tensor of a dtype points to. CuTe packs `bool` into bits, so bools travel as bytes."""
POSITIONS = "#"
"""Stands for the tensor whose element at offset i is i: a `Load` of it says where an element lies."""


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

    @property
    def accumulated(self) -> Accumulated | None:
        """Return the first product, convolution or pooling that this is made of element by element."""
        return None

    @property
    def height(self) -> int:
        """Return how many reductions of one kernel follow one another up to this."""
        return 0

    @property
    def of_sums(self) -> bool:
        """Return whether nothing but reductions and numbers is read for it."""
        return False


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """The same number everywhere."""

    number: int | float | bool
    of_sums = True


@dataclass(frozen=True, eq=False)
class Size(Value):
    """A number that depends on the workload, such as the length of a row, or one over its root."""

    text: str
    of_sums = True


@dataclass(frozen=True, eq=False)
class Load(Value):
    """A tensor in memory; `strides` are in elements, `offset` is where its first element lies."""

    tensor: str
    strides: tuple[Extent, ...]
    offset: Extent = ZERO

    @property
    def contiguous(self) -> bool:
        return in_order(self.dims, self.strides) and self.offset.nothing


@dataclass(frozen=True, eq=False)
class Compute(Value):
    """Pointwise arithmetic: `code` with {0}, {1}, ... for operands, {T} for the type, {f} for a function suffix."""

    code: str
    operands: tuple[Value, ...]

    @cached_property
    def accumulated(self) -> Accumulated | None:
        found = (o.accumulated for o in self.operands if agree(o.dims, self.dims))
        return next((part for part in found if part is not None), None)

    @cached_property
    def height(self) -> int:
        return max((o.height for o in self.operands), default=0)

    @cached_property
    def of_sums(self) -> bool:
        return all(o.of_sums for o in self.operands)


@dataclass(frozen=True, eq=False)
class Move(Value):
    """A view: operand dimension k is indexed by this value's dimension `sources[k]` (None: always 0)."""

    operand: Value
    sources: tuple[int | None, ...]

    @cached_property
    def height(self) -> int:
        return self.operand.height

    @property
    def of_sums(self) -> bool:
        return self.operand.of_sums


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """`kind` ("sum", "max", "min") over `axes` of the operand; reduced dimensions stay, with extent 1."""

    kind: str
    operand: Value
    axes: tuple[int, ...]
    of_sums = True

    @cached_property
    def height(self) -> int:
        return 1 + self.operand.height


@dataclass(frozen=True, eq=False)
class Accumulated(Value):
    """What a kernel of its own adds up; what follows element by element is computed there, too."""

    @property
    def accumulated(self) -> Accumulated | None:
        return self


@dataclass(frozen=True, eq=False)
class Scan(Accumulated):
    """For each element the sum, product ("times"), extreme or "logaddexp" of those up to it along `axis`.

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
class SegmentReduce(Accumulated):
    """At each place along `axis` the sum, product ("times") or extreme of those of the operand's elements that belong
    there.

    Attributes:
        order: sorted along `axis`, a number for each element: its place in the upper half, where it lies in the lower
            one. Places below 0, and behind the last one, are none.
    """

    kind: str
    operand: Value
    order: Value
    axis: int


@dataclass(frozen=True, eq=False)
class Sorted(Value):
    """The operand's elements, no two of which are equal, in order along `axis`: the least first, or the greatest.

    Attributes:
        wanted: only so many of each row; what follows them is anything. None: all of them.
    """

    operand: Value
    axis: int
    descending: bool = False
    wanted: Extent | None = None


@dataclass(frozen=True, eq=False)
class Recurrent(Value):
    """The state of a recurrent layer behind each of its steps; with an LSTM's, behind it along the last dimension, its
    cells.

    Attributes:
        kind: "lstm", "gru", "tanh" or "relu".
        given: what the input brings to the gates, one gate after the other along the last dimension.
        weight: of the state, (gates * width, width); `bias` is added to that product.
        state, cells: (batch, width) before the first step; None: zeros.
        axis: of the steps, 0 or 1; the batch is the other one.
        backwards: the last step comes first.
    """

    kind: str
    given: Value
    weight: Value
    bias: Value | None
    state: Value | None
    cells: Value | None
    axis: int
    backwards: bool = False


@dataclass(frozen=True, eq=False)
class Viewed(Value):
    """What `view` shows of the operand once that is in memory: a part of it, windows, its diagonal."""

    operand: Value
    view: Callable[[Load], Load]


@dataclass(frozen=True, eq=False)
class Flip(Viewed):
    """The operand's elements in the opposite order along `axis`."""

    axis: int


@dataclass(frozen=True, eq=False)
class Taken(Value):
    """Elements of the operand at places that other tensors hold.

    Attributes:
        places: for each dimension of the operand the tensor of its coordinates, broadcast to this value's extents, or
            None.
        sources: for each of the others the dimension of this value that it is indexed by (None: always 0).
    """

    operand: Value
    places: tuple[Value | None, ...]
    sources: tuple[int | None, ...]


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
