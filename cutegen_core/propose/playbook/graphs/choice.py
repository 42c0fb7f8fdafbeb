"""Choose between ways to compute the same value: for a naive kernel (`simplest`), the last one (`foremost`), all others
(`spread`).

1. A reduction with few results is spread over many blocks: the inner dimensions first, then what that leaves. The parts
   lie in a buffer, and a second kernel reduces them in a fixed order: every run gives the same bits.
2. The scores of attention stay inside a kernel; a naive one writes them to memory. So does the last one without tensor
   cores: whole products reach three times the rate of tiles of attention, which is worth more than the traffic.
3. Arithmetic that follows many reductions goes to memory: a loop would grow with the square of its steps, else. So does
   what several kernels read and is made of several tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import islice
from math import prod
from typing import Any

from cutegen_core.propose.playbook.values import (
    ONE,
    Compute,
    DotProductAttention,
    Move,
    Reduce,
    Reshape,
    Value,
    made_of,
    reductions,
    shared,
    walk,
)

_BLOCKS = 256
"""Results below which a reduction leaves most of a GPU idle."""
_ELEMENTS = 1 << 16
"""Elements from which a second kernel pays."""
_DEEP, _SCORES = 128, 1 << 30
"""Depth of queries from which it pays to write scores to memory, causal ones too, and how many of them at most."""
FEW_ROWS, LONG_ROW = 64, 1 << 17
"""Rows that leave most of a GPU idle, and their length from which it pays to reduce each by several blocks."""


_MOST_FOLLOWED, _MOST_READ_ONCE, _LONG, _TENSORS = 8, 12, 32, 3
"""Reductions that arithmetic may follow within one kernel, that which only one operation reads, and steps of what
several kernels are made of, and tensors from which on it is written to memory: the stream that layers add to."""

Choose = Callable[[Sequence[Value]], list[Value]]
"""Rebuilds the outputs of a reference; what several are made of stays one value."""


def spread(values: Sequence[Value]) -> list[Value]:
    """Return the values as many blocks compute them."""
    return _Choice(values, simplest=False).all()


def foremost(values: Sequence[Value]) -> list[Value]:
    """Return the values as the fastest kernels known compute them."""
    return _Choice(values, simplest=False, last=True).all()


def simplest(values: Sequence[Value]) -> list[Value]:
    """Return the values as a reader writes them down first."""
    return _Choice(values, simplest=True).all()


class _Choice:
    """Rebuilds values, each once."""

    def __init__(self, values: Sequence[Value], *, simplest: bool, last: bool = False) -> None:
        self._values, self._simplest, self._last = values, simplest, last
        self._uses = Counter(part for some in _together(values) for part in walk(some, Compute, Move, Reduce))
        self._readers = Counter(part for reader in walk(values, Value) for part in set(made_of(reader)))
        self._known: dict[Value, Value] = {}
        self._followed: dict[Value, frozenset[Value]] = {}

    def all(self) -> list[Value]:
        """Return all of them."""
        return list(map(self.of, self._values))

    def of(self, value: Value) -> Value:
        if value not in self._known:
            self._known[value] = self._rebuilt(value)
        return self._known[value]

    def _rebuilt(self, value: Value) -> Value:
        match value:
            case Compute():
                operands = tuple(self._apart(self.of(o), value) for o in value.operands)
                return self._short(_once(replace(value, operands=operands)), value)
            case DotProductAttention() if self._simplest or (self._last and _pays_in_memory(value)):
                return self.of(value.plain)
            case DotProductAttention():
                return replace(value, q=self.of(value.q), k=self.of(value.k), v=self.of(value.v))
            case Reduce():
                reduced = replace(value, operand=self.of(value.operand))
                return reduced if self._simplest else _in_two(reduced)
        held = {f.name: getattr(value, f.name) for f in fields(value)}
        rebuilt: dict[str, Any] = {name: self._rebuilt_part(part) for name, part in held.items()}
        return replace(value, **rebuilt) if any(rebuilt[name] is not part for name, part in held.items()) else value

    def _rebuilt_part(self, part: Any) -> Any:  # noqa: ANN401 - an attribute of a value
        """Return a value, or several, rebuilt; anything else as it is."""
        if isinstance(part, tuple):
            rebuilt = tuple(map(self._rebuilt_part, part))
            return rebuilt if any(new is not old for new, old in zip(rebuilt, part, strict=True)) else part
        return self.of(part) if isinstance(part, Value) else part

    def _short(self, whole: Compute, value: Compute) -> Value:
        """Return arithmetic, made from `value`, as a tensor of its own where it is long, and all kernels that follow
        would do it again: loops would grow with the square of their steps, else."""
        follows = frozenset[Value]() if whole.of_sums else self._follows(whole)
        cut = len(follows) >= (_MOST_FOLLOWED if self._readers[value] > 1 else _MOST_READ_ONCE)
        if not cut and not (self._uses[value] > 1 and (_is_of_many(whole) or _reads_much(whole))):
            return whole
        tensor = Reshape(whole.dims, whole.dtype, whole)
        self._followed[tensor] = frozenset((tensor,) if cut else ())
        return tensor

    def _follows(self, value: Value) -> frozenset[Value]:
        """Return the reductions that arithmetic follows in its kernel, and what went to memory as it followed many: the
        state of a loop may be made of one more such tensor in each step."""
        if value not in self._followed:
            parts = made_of(value) if isinstance(value, Compute | Move) else ()
            own = frozenset((value,) if isinstance(value, Reduce) else ())
            self._followed[value] = own.union(*map(self._follows, parts))
        return self._followed[value]

    def _apart(self, operand: Value, whole: Value) -> Value:
        """Return an operand of few, long rows as a tensor of its own, so that several blocks share each row."""
        few = not self._simplest and operand.numel < min(whole.numel, FEW_ROWS)
        return (
            Reshape(operand.dims, operand.dtype, operand)
            if few and any(map(_is_long, reductions(operand)))
            else operand
        )


def _together(values: Sequence[Value]) -> list[list[Value]]:
    """Return what each kernel writes: arithmetic and reductions that two are made of are made twice.

    Results of the same extents have one kernel; what is read from memory has one of its own, too.
    """
    results: dict[tuple[int, ...], list[Value]] = {}
    for value in values:
        results.setdefault(value.sizes, []).append(value)
    others = (part for part in walk(values, Value) if not isinstance(part, Compute | Move | Reduce))
    read = dict.fromkeys(part for other in others for part in made_of(other))
    return [*results.values(), *([part] for part in read if part not in values)]


def _is_of_many(whole: Compute) -> bool:
    return next(islice(walk(whole, Compute, Move), _LONG - 1, None), None) is not None


def _reads_much(whole: Compute) -> bool:
    """Return whether it is made of several tensors of its size: reading it twice costs less than making it again."""
    leaves = (part for part in walk(whole, Compute, Move, Reduce) if not isinstance(part, Compute | Move | Reduce))
    few = _TENSORS if any(reductions(whole)) else _TENSORS + 1  # sums of rows are made again, too
    return sum(leaf.numel >= whole.numel for leaf in leaves) >= few


def _once(whole: Compute) -> Compute:
    """Return arithmetic that reads the result of another kernel from memory if what it is made of does so, too.

    The other kernel would compute it again, else: in `x * gate(pooled(x))` of a convolution x both factors need x.
    """
    if whole.accumulated is None or any(reductions(whole)):
        return whole
    return _apart_in(whole, _behind_other_kernels(whole))


def _apart_in(value: Compute, behind: set[Value]) -> Compute:
    """Return the value with parts of it that another kernel adds up, as large as can be, as tensors if `behind`."""

    @shared
    def of(operand: Value) -> Value:
        if operand.accumulated is None:
            return operand
        if operand in behind:
            return Reshape(operand.dims, operand.dtype, operand)
        return within(operand) if isinstance(operand, Compute) else operand

    def within(one: Compute) -> Compute:
        return replace(one, operands=tuple(map(of, one.operands)))

    return within(value)


def _behind_other_kernels(value: Value) -> set[Value]:
    """Return what the value is made of, other than element by element."""
    kernels = [part for part in walk(value, Compute) if not isinstance(part, Compute)]
    return set(walk([inner for kernel in kernels for inner in made_of(kernel)], Value))


def _pays_in_memory(value: DotProductAttention) -> bool:
    """Return whether whole products beat tiles of attention, which skip half of the work where it is causal."""
    scores = prod(value.sizes[:-1]) * value.k.sizes[-2]
    deep = value.q.sizes[-1] >= _DEEP or not value.causal
    return value.q.dtype in ("float32", "float64") and deep and scores <= _SCORES


def _is_long(value: Reduce) -> bool:
    return value.operand.numel // max(1, value.numel) >= LONG_ROW


def _in_two(value: Reduce) -> Reduce:
    sizes = value.operand.sizes
    if value.numel >= _BLOCKS or prod(sizes[a] for a in value.axes) < _ELEMENTS:
        return value
    outer = list(value.axes)
    while len(outer) > 1 and value.numel * prod(sizes[a] for a in outer[:-1]) >= _BLOCKS:
        outer.pop()
    inner = value.axes[len(outer) :]
    if not inner:
        return value
    dims = tuple(ONE if k in inner else d for k, d in enumerate(value.operand.dims))
    return replace(value, operand=replace(value, dims=dims, axes=inner), axes=tuple(outer))
