"""Cut values into regions, one kernel each.

1. A root with a reduction becomes a row region, a matrix product with what follows it a product region, the rest is
   elementwise.
2. What does not fit into its region is written to a scratch buffer by a region of its own, which comes first.
3. Neighbouring coordinates that every tensor walks through contiguously are merged into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cutegen_core.propose.playbook.naming import fresh
from cutegen_core.propose.playbook.terms import Coordinate, TensorAccess, Terms
from cutegen_core.propose.playbook.values import (
    Compute,
    Extent,
    Load,
    Move,
    Product,
    Reduce,
    Reshape,
    Value,
    contiguous,
)


class Kind(StrEnum):
    ELEMENTWISE = "elementwise"
    ROWS = "rows"
    PRODUCT = "product"


@dataclass(frozen=True)
class Mode:
    """One or more merged symbols, walked with one stride: the fastest symbol's."""

    symbols: tuple[str, ...]
    extent: Extent

    def stride(self, access: TensorAccess) -> Extent:
        return access.stride(self.symbols[-1])


@dataclass(frozen=True)
class Region:
    """A kernel to write.

    Attributes:
        root: name (or literal) of the term that is stored.
        out: how the result is stored over the domain.
        outer, reduced: merged modes, slowest first; for a product `outer` is batch..., m, n and `reduced` is k.
        a, b: operands of the product.
    """

    kind: Kind
    terms: Terms
    root: str
    out: TensorAccess
    outer: tuple[Mode, ...]
    reduced: tuple[Mode, ...] = ()
    a: TensorAccess | None = None
    b: TensorAccess | None = None

    @property
    def accesses(self) -> list[TensorAccess]:
        """Return every tensor access, the store last."""
        operands = [x for x in (self.a, self.b) if x is not None]
        return [*operands, *(t.access for t in self.terms.loads if t.access is not None), self.out]

    @property
    def full_output(self) -> bool:
        """Return whether the result varies along the reduction: softmax does, sum does not."""
        return any(s in self.terms.reduced for s in self.out.strides)


@dataclass(frozen=True)
class RegionScratch:
    """A buffer between two regions."""

    name: str
    dtype: str
    dims: tuple[Extent, ...]


@dataclass
class Planner:
    """Builds the regions of one reference, in launch order."""

    taken: set[str]
    regions: list[Region] = field(default_factory=list)
    scratch: list[RegionScratch] = field(default_factory=list)
    _written: dict[Value, Load] = field(default_factory=dict)

    def output(self, value: Value, tensor: str) -> None:
        """Add the region that writes `value` to `tensor`, after those it needs."""
        while isinstance(value, Reshape):
            value = value.operand
        self.regions.append(self._region(value, tensor))

    def materialise(self, value: Value) -> Load:
        """Return a scratch tensor that holds `value`; reuse one that holds it already."""
        if isinstance(value, Reshape):
            return contiguous(self.materialise(value.operand).tensor, value.dtype, value.dims)
        if isinstance(value, Load):
            return value
        if value not in self._written:
            name = fresh("tmp", self.taken)
            self.output(value, name)
            self.scratch.append(RegionScratch(name, value.dtype, value.dims))
            self._written[value] = contiguous(name, value.dtype, value.dims)
        return self._written[value]

    def _in_memory(self, value: Value) -> Value:
        """Return `value` as a view of a tensor."""
        if isinstance(value, Move):
            return replace(value, operand=self._in_memory(value.operand))
        return self.materialise(value)

    def _region(self, value: Value, tensor: str) -> Region:
        store = contiguous(tensor, value.dtype, value.dims)
        reductions = list(_reductions(value))
        accumulated = _accumulated(value)
        if accumulated is not None and not reductions:
            return self._product(value, accumulated, store)
        for reduction in reductions:
            coordinates = _row_coordinates(value, reduction)
            if coordinates is not None:
                return self._rows(value, reduction, coordinates, store)
        return self._elementwise(value, store)

    def _elementwise(self, value: Value, store: Load) -> Region:
        symbols = [f"o{k}" for k in range(len(value.dims))]
        terms = Terms(dict(zip(symbols, value.dims, strict=True)), self.materialise)
        root = terms.at(value, symbols)
        out = _access(store, symbols)
        accesses = [*(t.access for t in terms.loads if t.access), out]
        return Region(Kind.ELEMENTWISE, terms, root, out, merged(symbols, terms, accesses))

    def _rows(self, value: Value, reduction: Reduce, coordinates: list[Coordinate], store: Load) -> Region:
        outer = {s: d for s, d in zip(coordinates, value.dims, strict=True) if s and s.startswith("o")}
        reduced = {f"r{j}": reduction.operand.dims[axis] for j, axis in enumerate(reduction.axes)}
        terms = Terms({**outer, **reduced}, self.materialise)
        root = terms.at(value, coordinates)
        out = _access(store, coordinates)
        accesses = [*(t.access for t in terms.loads if t.access), out]
        return Region(
            Kind.ROWS, terms, root, out, merged(list(outer), terms, accesses), merged(list(reduced), terms, accesses)
        )

    def _product(self, value: Value, prod: Product, store: Load) -> Region:
        symbols = [f"o{k}" for k in range(len(value.dims))]
        extents = dict(zip(symbols, prod.dims, strict=True))
        terms = Terms({**extents, "r0": prod.a.dims[-1]}, self.materialise, prod)
        batch, m, n = symbols[:-2], symbols[-2], symbols[-1]
        a = self._operand(terms, prod.a, [*_batched(prod.a, prod, batch), m, "r0"])
        b = self._operand(terms, prod.b, [*_batched(prod.b, prod, batch), "r0", n])
        root = terms.at(value, symbols)
        out = _access(store, symbols)
        accesses = [a, b, *(t.access for t in terms.loads if t.access), out]
        rows = merged(symbols[:-1], terms, accesses)
        outer = (*rows, Mode((n,), extents[n]))
        return Region(Kind.PRODUCT, terms, root, out, outer, (Mode(("r0",), prod.a.dims[-1]),), a, b)

    def _operand(self, terms: Terms, value: Value, coordinates: Sequence[Coordinate]) -> TensorAccess:
        """Return how an operand of the product is addressed; write one that is not a view of a tensor to a tensor
        first."""
        alone = Terms(terms.extents, self.materialise)
        access = alone.terms[alone.at(self._in_memory(value), coordinates)].access
        assert access is not None
        return access


def merged(symbols: Sequence[str], terms: Terms, accesses: Sequence[TensorAccess]) -> tuple[Mode, ...]:
    """Merge neighbours that every access walks as one: stride of the slower = stride * extent of the faster."""
    modes: list[Mode] = []
    for symbol in symbols:
        extent = terms.extents[symbol]
        if modes and all(a.stride(modes[-1].symbols[-1]).size == a.stride(symbol).size * extent.size for a in accesses):
            last = modes.pop()
            modes.append(Mode((*last.symbols, symbol), last.extent.times(extent)))
        else:
            modes.append(Mode((symbol,), extent))
    return tuple(modes)


def _access(store: Load, coordinates: Sequence[Coordinate]) -> TensorAccess:
    strides = {s: e for s, e in zip(coordinates, store.strides, strict=True) if s is not None}
    return TensorAccess(store.tensor, store.dtype, strides)


def _reductions(value: Value) -> Iterator[Reduce]:
    """Return the reductions under `value`, outermost first, without those inside them."""
    if isinstance(value, Reduce):
        yield value
    elif isinstance(value, Compute):
        for operand in value.operands:
            yield from _reductions(operand)
    elif isinstance(value, Move):
        yield from _reductions(value.operand)


def _accumulated(value: Value) -> Product | None:
    """Return the first product that `value` is made of element by element."""
    if isinstance(value, Product):
        return value
    if isinstance(value, Compute):
        found = (_accumulated(o) for o in value.operands if o.sizes == value.sizes)
        return next((p for p in found if p is not None), None)
    return None


def _row_coordinates(value: Value, reduction: Reduce) -> list[Coordinate] | None:
    """Return coordinates of `value` in the domain of `reduction`; None if the two do not belong together."""
    names: dict[int, Coordinate] = {axis: f"r{j}" for j, axis in enumerate(reduction.axes)}
    if value.sizes == reduction.operand.sizes:
        return [names.get(k, f"o{k}") for k in range(len(value.dims))]
    if [s for s in value.sizes if s != 1] == [s for s in reduction.sizes if s != 1]:
        return [f"o{k}" if d.size != 1 else None for k, d in enumerate(value.dims)]
    return None


def _batched(operand: Value, prod: Product, batch: Sequence[str]) -> list[Coordinate]:
    pairs = zip(operand.dims[:-2], prod.dims[:-2], batch, strict=True)
    return [None if own.size == 1 and full.size != 1 else symbol for own, full, symbol in pairs]
