"""Cut values into regions, one kernel each.

1. A root with a reduction becomes a row region, a matrix product, convolution or pooling with what follows it a region
   of its own, the rest is elementwise; in strips of contiguous elements where the tensors are walked differently, or
   one varies less.
2. Results over the same elements, or the same rows, share a region: what they read is read once.
3. What does not fit into its region is written to a scratch buffer by a region of its own, which comes first.
4. Neighbouring coordinates that every tensor walks through contiguously are merged into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import TypeGuard

from cutegen_core.propose.playbook.arrangement import arranged
from cutegen_core.propose.playbook.domains import (
    OWN_REGION,
    Domain,
    grouped,
    is_made_of,
    row_domain,
    share_rows,
    strips_domain,
)
from cutegen_core.propose.playbook.naming import fresh
from cutegen_core.propose.playbook.terms import Coordinate, TensorAccess, Terms
from cutegen_core.propose.playbook.triangles import KeptTriangle, has_zeros, kept_of
from cutegen_core.propose.playbook.values import (
    POSITIONS,
    ZERO,
    Compute,
    Constant,
    DotProductAttention,
    Extent,
    Join,
    Load,
    Move,
    Product,
    Recurrent,
    Reduce,
    Reshape,
    Scan,
    SegmentReduce,
    Size,
    Sorted,
    Value,
    Viewed,
    agree,
    compute,
    constant,
    contiguous,
    in_order,
    made_of,
    plain,
    product,
    reductions,
    repeats,
    walk,
    window,
)
from cutegen_core.propose.playbook.windows.values import Convolution, Sliding

_FEW_ROWS = 64
"""Rows of a product that leave half of a tile idle, or more."""


class Kind(StrEnum):
    ELEMENTWISE = "elementwise"
    STRIPS = "strips"
    ROWS = "rows"
    SCAN = "scan"
    SORT = "sort"
    SEGMENTS = "segments"
    ATTENTION = "attention"
    PRODUCT = "product"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    RECURRENT = "recurrent"


@dataclass(frozen=True)
class Mode:
    """One or more merged symbols, walked with one stride: the fastest symbol's."""

    symbols: tuple[str, ...]
    extent: Extent

    def stride(self, access: TensorAccess) -> Extent:
        return access.stride(self.symbols[-1])


@dataclass(frozen=True)
class RegionResult:
    """A result: the name (or literal) of its term, and how it is stored over the domain."""

    root: str
    out: TensorAccess


@dataclass(frozen=True)
class Region:
    """A kernel to write.

    Attributes:
        stores: its results, at least one.
        outer, reduced: merged modes, slowest first; for a product `outer` is batch..., m, n and `reduced` is k, for
            strips `reduced` is the strip; for windows `outer` is image, channel and places.
        a, b: operands of the product; the image and the weight of a convolution, the image of a pooling; queries and
            keys of attention.
        c: the values of attention.
        scan, sort: what the region scans or sorts, along `reduced`.
        order, place: names of the terms of a segment's order, and of its place.
        sliding: the convolution or pooling.
        operands: of a recurrent layer, in the order of its value's attributes, without those that there are not.
        elements: of an elementwise region, how many there are, as an expression.
        kept: the triangle outside of which the result of a product does not depend on it.
        has_zeros: an operand of the product is a triangle or a diagonal of something.
        when: where it has any elements, if that depends on the sizes.
    """

    kind: Kind
    terms: Terms
    stores: tuple[RegionResult, ...]
    outer: tuple[Mode, ...]
    reduced: tuple[Mode, ...] = ()
    a: TensorAccess | None = None
    b: TensorAccess | None = None
    c: TensorAccess | None = None
    scan: Scan | None = None
    sort: Sorted | None = None
    order: str = ""
    place: str = ""
    attention: DotProductAttention | None = None
    sliding: Sliding | None = None
    recurrent: Recurrent | None = None
    operands: tuple[TensorAccess, ...] = ()
    elements: str = ""
    kept: KeptTriangle | None = None
    has_zeros: bool = False
    when: str = ""

    @property
    def rows(self) -> int:
        """Return how many rows, or results, `outer` counts in the traced workload."""
        return prod(mode.extent.size for mode in self.outer)

    @property
    def length(self) -> int:
        """Return how many elements of a row `reduced` counts in the traced workload."""
        return prod(mode.extent.size for mode in self.reduced)

    @property
    def wanted(self) -> str:
        """Return the plan's condition under which there is something to launch; "" where that is always so."""
        walked = (*self.outer, *(self.reduced if self.kind in (Kind.STRIPS, Kind.SORT) else ()))
        parts = [f"{mode.extent.text} > 0" for mode in walked if mode.extent.may_be_none]
        return " and ".join(dict.fromkeys(filter(None, (self.when, *parts))))

    @property
    def accesses(self) -> list[TensorAccess]:
        """Return every tensor access, the stores last."""
        operands = [x for x in (self.a, self.b, self.c) if x is not None]
        return [*operands, *self.operands, *_accesses(self.terms, self.stores)]

    def is_flat(self, access: TensorAccess) -> bool:
        """Return whether it is walked in memory order, from the beginning, where nothing is reduced."""
        walked = in_order([m.extent for m in self.outer], [m.stride(access) for m in self.outer])
        return walked and access.offset.nothing and not access.counted

    @property
    def work(self) -> int:
        """Return how many elements it walks over, in the traced workload."""
        own = prod(extent.size for extent in self.terms.extents.values())
        return own * (self.sliding.seen if self.sliding is not None else 1)

    def varies(self, access: TensorAccess) -> bool:
        """Return whether it varies along the reduction, or the strip: the result of softmax does, that of sum not."""
        return any(s in self.terms.reduced for s in access.strides)


@dataclass(frozen=True)
class RegionScratch:
    """A buffer between two regions; `zero` has it zeroed before every call."""

    name: str
    dtype: str
    dims: tuple[Extent, ...]
    zero: bool = False


@dataclass
class Planner:
    """Builds the regions of one reference, in launch order.

    Attributes:
        fast: with approximate intrinsics.
        expected: what an earlier plan wrote to scratch; reductions of the same rows among it share a region.
    """

    taken: set[str]
    fast: bool = False
    expected: tuple[Value, ...] = ()
    regions: list[Region] = field(default_factory=list)
    scratch: list[RegionScratch] = field(default_factory=list)
    _written: dict[Value, Load] = field(default_factory=dict)
    _begun: list[Value] = field(default_factory=list)
    _named: set[str] = field(default_factory=set)
    _in_pieces: set[str] = field(default_factory=set)
    _in_joins: dict[Value, Load] = field(default_factory=dict)
    _uses: Counter[Value] = field(default_factory=Counter)

    def outputs(self, values: Sequence[Value], tensors: Sequence[str]) -> None:
        """Add the regions that write these values, after those they need."""
        self._uses = Counter(part for value in walk(values, Value) for part in set(made_of(value)))
        stores = [contiguous(t, v.dtype, v.dims) for v, t in zip(values, tensors, strict=True)]
        self._write([self.materialise(v) if self._uses[v] and _is_costly(v) else v for v in values], stores)

    def _write(self, values: Sequence[Value], stores: Sequence[Load]) -> None:
        pairs = list(zip(values, stores, strict=True))
        for value, store in pairs:
            if isinstance(value, Join):
                self._join(value, store)
        whole = [(v, s) for v, s in pairs if not isinstance(v, Join)]
        for group in grouped([v for v, _ in whole]):
            self._add_region([whole[k][0] for k in group], [whole[k][1] for k in group])

    def _add_region(self, values: Sequence[Value], stores: Sequence[Load]) -> None:
        """Add the region that writes these values, and to scratch what else is expected of the same rows."""
        others = self._of_their_rows(values)
        self._begun += others
        names = [fresh("tmp", self.taken) for _ in others]
        self._named |= set(names)
        kept = [contiguous(name, _held_as(one), one.dims) for one, name in zip(others, names, strict=True)]
        self.regions.append(self._region([*values, *others], [*stores, *kept]))
        for one, store in zip(others, kept, strict=True):
            self._keep(one, store)
            self._begun.remove(one)

    def _join(self, value: Join, store: Load) -> None:
        """Add the regions that write each piece to its part of the result."""
        self._in_pieces.add(store.tensor)
        parts = _parts(value, store)
        if _share_rows_throughout(value.pieces):
            self._write(value.pieces, parts)
            return
        pairs = list(zip(value.pieces, parts, strict=True))
        if any(isinstance(part, Join) for part in walk(value.pieces, Value)):
            pairs.reverse()  # what lies in those joins is read there: the last piece is made of most of them
        for piece, part in pairs:
            length, written, before = piece.dims[value.axis], plain(piece), len(self.regions)
            shared, whole = self._is_of_use_elsewhere(piece), store.tensor not in self._named
            apart = written is not piece or (shared and (whole or self._is_written(piece)))
            self._write([self.materialise(piece) if apart else piece], [part])
            if shared and not apart:
                self._in_joins[piece] = part
            if not all(length.everywhere):
                self.regions[before:] = (_only_where(r, length, store.tensor) for r in self.regions[before:])

    def _is_of_use_elsewhere(self, piece: Value) -> bool:
        """Tell whether a kernel of its own makes a piece that something else is made of, too: it is made once."""
        return self._uses[piece] > 1 and (_is_costly(piece) or isinstance(piece, OWN_REGION) or any(reductions(piece)))

    def _is_written(self, value: Value) -> bool:
        return value in self._written or value in self._in_joins

    def materialise(self, value: Value) -> Load:
        """Return a scratch tensor that holds `value`; reuse one that holds it already."""
        if isinstance(value, Reshape) or _is_squeezed(value):
            operand = self.materialise(value.operand)
            whole = operand if operand.contiguous else self._copied(operand)
            return contiguous(whole.tensor, whole.dtype, value.dims)
        if isinstance(value, Load) and value.tensor != POSITIONS:
            return value
        return self._copied(value)

    def _copied(self, value: Value) -> Load:
        """Return a scratch tensor of its own that holds `value`, or the part of another that does."""
        if value in self._in_joins:
            return self._in_joins[value]
        if value not in self._written:
            name = fresh("tmp", self.taken)
            self._named.add(name)
            self._begun.append(value)
            store = contiguous(name, _held_as(value), value.dims)
            self._write([plain(value)], [store])
            self._keep(value, store)
            self._begun.remove(value)
        return self._written[value]

    def _keep(self, value: Value, store: Load) -> None:
        self.scratch.append(RegionScratch(store.tensor, store.dtype, value.dims))
        self._written[value] = store

    @property
    def written(self) -> tuple[Value, ...]:
        """Return what was written to scratch."""
        return tuple(self._written)

    def _of_their_rows(self, values: Sequence[Value]) -> list[Value]:
        """Return what else is expected of the same rows as these values, made of nothing that is not written yet."""
        if any(row_domain(one) is None for one in values):
            return []
        found: list[Value] = []
        begun = [one for one in self._begun if one not in values]
        for other in self._of_rows:
            new = other not in self._written and other not in self._begun
            together = [*values, *found]
            if (
                new
                and all(share_rows(one, other) for one in together)
                and not any(is_made_of(other, one) for one in begun)
            ):
                found.append(other)
        return found

    @cached_property
    def _of_rows(self) -> list[Value]:
        """Return what is expected and has rows."""
        return [one for one in self.expected if row_domain(one) is not None]

    def _in_memory(self, value: Value) -> Value:
        """Return `value` as a view of a tensor."""
        if isinstance(value, Move):
            return replace(value, operand=self._in_memory(value.operand))
        if isinstance(value, Viewed):
            seen = value.view(self.materialise(value.operand))
            if all(stride.size >= 0 for stride in seen.strides):  # no kernel copies an operand backwards
                return seen
        return self.materialise(value)

    def _region(self, values: Sequence[Value], stores: Sequence[Load]) -> Region:
        first = values[0]
        attention = arranged(first, stores[0]) if len(values) == 1 else None
        if attention is not None and attention[0] not in self._written:
            return self._attention(*attention)
        if isinstance(first, Sorted):
            return self._sort(first, stores[0])
        if isinstance(first, Recurrent):
            return self._recurrent(first, stores[0])
        domain = row_domain(first)
        if domain is not None:
            return self._over_rows(Kind.ROWS, domain, values, stores)
        sums = None if list(reductions(first)) else first.accumulated
        if isinstance(sums, Scan):
            return self._scan(first, sums, stores[0])
        if isinstance(sums, SegmentReduce):
            return self._segments(first, sums, stores[0])
        if isinstance(sums, Product):
            return self._product(first, sums, stores[0])
        if isinstance(sums, Sliding):
            return self._windows(first, sums, stores[0])
        flat = self._elementwise(values, stores) if all(agree(v.dims, first.dims) for v in values) else None
        domain = strips_domain(first, min(len(v.dims) for v in values)) if flat is None else _strips_of(flat, first)
        if domain is not None:
            strips = self._over_rows(Kind.STRIPS, domain, values, stores)
            if flat is None or are_strips(strips):
                return strips
        assert flat is not None
        return flat

    def _elementwise(self, values: Sequence[Value], stores: Sequence[Load]) -> Region:
        dims = values[0].dims
        symbols = [None if d.single else f"o{k}" for k, d in enumerate(dims)]
        extents = {s: d for s, d in zip(symbols, dims, strict=True) if s}
        terms = Terms(extents, self.materialise, fast=self.fast, takes=True)
        made = tuple(
            RegionResult(terms.at(v, symbols), _access(s, symbols)) for v, s in zip(values, stores, strict=True)
        )
        # A scratch buffer has no size yet where the plan computes its numbers; a piece of a tensor has less than all.
        first = stores[0]
        whole = first.contiguous and first.tensor not in self._named | self._in_pieces
        elements = f"{first.tensor}.numel" if whole else product(first.dims).text
        modes = merged(list(extents), terms, _accesses(terms, made))
        return Region(Kind.ELEMENTWISE, terms, made, modes, elements=elements)

    def _over_rows(self, kind: Kind, domain: Domain, values: Sequence[Value], stores: Sequence[Load]) -> Region:
        outer = {s: d for s, d in zip(domain.symbols, domain.dims, strict=True) if s and s.startswith("o")}
        reduced = {s: d for s, d in zip(domain.symbols, domain.dims, strict=True) if s and s.startswith("r")}
        terms = Terms({**outer, **reduced}, self.materialise, fast=self.fast, takes=kind is Kind.STRIPS)
        made = []
        for value, store in zip(values, stores, strict=True):
            coordinates = domain.coordinates(value)
            assert coordinates is not None
            made.append(RegionResult(terms.at(value, coordinates), _access(store, coordinates)))
        accesses = _accesses(terms, made)
        rows, row = (merged(list(symbols), terms, accesses) for symbols in (outer, reduced))
        reduces = any(t.reduction is not None for t in terms.terms.values())
        return Region(Kind.ROWS if reduces else kind, terms, tuple(made), rows, row)

    def _product(self, value: Value, prod: Product, store: Load) -> Region:
        symbols = [f"o{k}" for k in range(len(value.dims))]
        extents = dict(zip(symbols, prod.dims, strict=True))
        terms = Terms({**extents, "r0": prod.a.dims[-1]}, self.materialise, prod, fast=self.fast)
        batch, m, n = symbols[:-2], symbols[-2], symbols[-1]
        a = self._operand(terms, prod.a, [*_batched(prod.a, prod, batch), m, "r0"])
        b = self._operand(terms, prod.b, [*_batched(prod.b, prod, batch), "r0", n])
        made = (RegionResult(terms.at(value, symbols), _access(store, symbols)),)
        rows = merged(symbols[:-1], terms, [a, b, *_accesses(terms, made)])
        kept, zeros = kept_of(value, prod), has_zeros(prod.a) or has_zeros(prod.b)
        outer = (*(rows if kept or zeros else _with_long_rows(rows, b)), Mode((n,), extents[n]))
        inner = (Mode(("r0",), prod.a.dims[-1]),)
        return Region(Kind.PRODUCT, terms, made, outer, inner, a, b, kept=kept, has_zeros=zeros)

    def _scan(self, value: Value, scan: Scan, store: Load) -> Region:
        return replace(self._along(Kind.SCAN, value, scan.axis, store, scan), scan=scan)

    def _segments(self, value: Value, segments: SegmentReduce, store: Load) -> Region:
        symbols = [f"o{k}" for k in range(len(value.dims))]
        extents = dict(zip(symbols, value.dims, strict=True))
        elements = segments.operand.dims[segments.axis]
        terms = Terms({**extents, "r0": elements}, self.materialise, segments, fast=self.fast, takes=True)
        order, place = terms.order_of(segments, symbols), terms.place_of(segments, symbols)
        made = (RegionResult(terms.at(value, symbols), _access(store, symbols)),)
        outer = merged(symbols, terms, _accesses(terms, made))
        return Region(Kind.SEGMENTS, terms, made, outer, (Mode(("r0",), elements),), order=order, place=place)

    def _sort(self, value: Sorted, store: Load) -> Region:
        operand = self.materialise(value.operand) if any(reductions(value.operand)) else value.operand
        return replace(self._along(Kind.SORT, operand, value.axis, store), sort=value)

    def _along(self, kind: Kind, value: Value, axis: int, store: Load, scan: Scan | None = None) -> Region:
        """Return the region whose rows lie along one dimension of the value, which is not reduced."""
        symbols = [f"{'r' if k == axis else 'o'}{k}" for k in range(len(value.dims))]
        terms = Terms(dict(zip(symbols, value.dims, strict=True)), self.materialise, scan, fast=self.fast)
        made = (RegionResult(terms.at(value, symbols), _access(store, symbols)),)
        along = symbols.pop(axis)
        outer = merged(symbols, terms, _accesses(terms, made))
        return Region(kind, terms, made, outer, (Mode((along,), value.dims[axis]),))

    def _attention(self, value: DotProductAttention, store: Load) -> Region:
        batch = [f"o{k}" for k in range(len(value.dims) - 2)]
        extents = dict(zip([*batch, "om", "oe"], value.dims, strict=True))
        terms = Terms({**extents, "rn": value.k.dims[-2], "rd": value.k.dims[-1]}, self.materialise, fast=self.fast)
        pairs = ((value.q, "om", "rd"), (value.k, "rn", "rd"), (value.v, "rn", "oe"))
        q, k, v = (self._operand(terms, one, [*batch, row, column]) for one, row, column in pairs)
        scale, out = terms.at(value.scale, ()), _access(store, [*batch, "om", "oe"])
        heads = merged(batch, terms, [q, k, v, out])
        rows, columns, keys, depth = (Mode((s,), terms.extents[s]) for s in ("om", "oe", "rn", "rd"))
        made, outer = (RegionResult(scale, out),), (*heads, rows, columns)
        return Region(Kind.ATTENTION, terms, made, outer, (keys, depth), q, k, v, attention=value)

    def _recurrent(self, value: Recurrent, store: Load) -> Region:
        along = ("ot", "ob") if value.axis == 0 else ("ob", "ot")
        gates, width = value.weight.dims
        extents = dict(zip((*along, "ou", "rg", "rk"), (*value.dims, gates, width), strict=True))
        terms = Terms(extents, self.materialise, fast=self.fast)
        parts: tuple[tuple[Value | None, tuple[str, ...]], ...] = (
            (value.given, (*along, "rg")), (value.weight, ("rg", "rk")), (value.bias, ("rg",)),
            (value.state, ("ob", "rk")), (value.cells, ("ob", "rk")),
        )  # fmt: skip
        operands = tuple(self._operand(terms, one, symbols) for one, symbols in parts if one is not None)
        made = (RegionResult(terms.at(constant(0, value.dtype), ()), _access(store, (*along, "ou"))),)
        outer, reduced = ([Mode((s,), extents[s]) for s in names] for names in (("ot", "ob", "ou"), ("rg", "rk")))
        return Region(Kind.RECURRENT, terms, made, tuple(outer), tuple(reduced), recurrent=value, operands=operands)

    def _windows(self, value: Value, sliding: Sliding, store: Load) -> Region:
        symbols = [f"o{k}" for k in range(len(value.dims))]
        terms = Terms(dict(zip(symbols, value.dims, strict=True)), self.materialise, sliding, fast=self.fast)
        image = sliding.image_at(self._operand(terms, sliding.operand, symbols))
        weight = None
        if isinstance(sliding, Convolution):
            axes = [f"w{k}" for k in range(len(sliding.weight.dims))]
            weight = sliding.weight_at(self._operand(terms, sliding.weight, axes))
        made = (RegionResult(terms.at(value, symbols), _access(store, symbols)),)
        places = merged(symbols[2:], terms, _accesses(terms, made))
        outer = (*(Mode((s,), terms.extents[s]) for s in symbols[:2]), *places)
        kind = Kind.POOLING if weight is None else Kind.CONVOLUTION
        return Region(kind, terms, made, outer, (), image, weight, sliding=sliding)

    def _operand(self, terms: Terms, value: Value, coordinates: Sequence[Coordinate]) -> TensorAccess:
        """Return how an operand of the product is addressed; write one that is not a view of a tensor to a tensor
        first."""
        alone, held = Terms(terms.extents, self.materialise), self._in_memory(value)
        if held.dtype != value.dtype:
            held = self.materialise(compute("{0}", held, dtype=value.dtype))
        access = alone.terms[alone.at(held, coordinates)].access
        assert access is not None
        return access


def merged(symbols: Sequence[str], terms: Terms, accesses: Sequence[TensorAccess]) -> tuple[Mode, ...]:
    """Merge neighbours that every access walks as one: stride of the slower = stride * extent of the faster."""
    modes: list[Mode] = []
    for symbol in symbols:
        extent = terms.extents[symbol]
        slower = modes[-1].symbols[-1] if modes else ""
        if modes and all(agree([a.stride(slower)], [a.stride(symbol).times(extent)]) for a in accesses):
            last = modes.pop()
            modes.append(Mode((*last.symbols, symbol), last.extent.times(extent)))
        else:
            modes.append(Mode((symbol,), extent))
    return tuple(modes)


def _accesses(terms: Terms, stores: Sequence[RegionResult]) -> list[TensorAccess]:
    return [*(t.access for t in terms.loads if t.access is not None), *(s.out for s in stores)]


def _access(store: Load, coordinates: Sequence[Coordinate]) -> TensorAccess:
    strides = {s: e for s, e in zip(coordinates, store.strides, strict=True) if s is not None}
    return TensorAccess(store.tensor, store.dtype, strides, store.offset)


def _is_costly(value: Value) -> bool:
    """Tell whether a kernel makes the value of more than it reads: a product, attention, a sort, a recurrent layer."""
    return value.accumulated is not None or isinstance(value, DotProductAttention | Sorted | Recurrent)


def _held_as(value: Value) -> str:
    """Return the dtype of a value in scratch: a sum of halves, or a square, may be more than they hold."""
    of_rows = isinstance(value, Compute) and value.of_sums and value.height > 0
    wide = of_rows or _made_of_sums(value) or _is_square(value)
    return "float32" if value.dtype in ("float16", "bfloat16") and wide else value.dtype


def _is_square(value: Value) -> bool:
    """Tell whether it is a value times itself, as norms have it, whose squares PyTorch never rounds to halves."""
    if isinstance(value, Move):
        return _is_square(value.operand)
    if not isinstance(value, Compute):
        return False
    return value.code == "{0} * {0}" or (value.code == "{0} * {1}" and value.operands[0] == value.operands[1])


def _made_of_sums(value: Value) -> bool:
    """Tell whether nothing but sums, and numbers, is read for a value: it is as small as they are."""
    sums, seen, left = 0, set[int](), [value]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, Constant | Size):
            continue
        seen.add(id(one))
        if isinstance(one, Reduce) and one.kind in ("sum", "times"):
            sums += 1
        elif isinstance(one, Compute):
            left.extend(one.operands)
        elif isinstance(one, Move | Reduce):
            left.append(one.operand)
        else:
            return False
    return sums > 0


def _parts(value: Join, store: Load) -> list[Load]:
    """Return where each piece is written."""
    start, parts = ZERO, []
    for piece in value.pieces:
        length = piece.dims[value.axis]
        part = window(store, value.axis, start, length)
        assert isinstance(part, Load)
        parts.append(part)
        start = start.plus(length)
    return parts


def _only_where(region: Region, length: Extent, tensor: str) -> Region:
    """Return a region that writes nothing but a piece of the tensor, launched where that has elements; any other one as
    it is.

    What a piece is made of, or is stored with it, may be read by the next one, too.
    """
    if any(store.out.tensor != tensor for store in region.stores):
        return region
    return replace(region, when=" and ".join(filter(None, (region.when, f"{length.text} > 0"))))


def _share_rows_throughout(pieces: Sequence[Value]) -> bool:
    """Return whether all pieces are results of one walk over the same rows, one for each."""
    domains = [row_domain(piece) for piece in pieces]
    domain = domains[0]
    return (
        domain is not None
        and all(other == domain and domain.holds(piece) for other, piece in zip(domains, pieces, strict=True))
        and all(domain.has_one_a_row(piece) for piece in pieces)
    )


def _is_squeezed(value: Value) -> TypeGuard[Move]:
    """Return whether the value is a reduction with dimensions of 1 left out, or more of them: memory is the same."""
    if not isinstance(value, Move) or not isinstance(value.operand, Reduce):
        return False
    kept = [s for s, d in zip(value.sources, value.operand.dims, strict=True) if not d.single]
    return kept == [k for k, d in enumerate(value.dims) if not d.single]


def _strips_of(flat: Region, value: Value) -> Domain | None:
    """Return the domain in which the fastest mode of an elementwise region is the strip; None if it has only one."""
    if len(flat.outer) < 2:
        return None
    walked = [k for k, d in enumerate(value.dims) if not d.single]
    return strips_domain(value, walked[-len(flat.outer[-1].symbols)])


def are_strips(region: Region) -> bool:
    """Return whether every tensor is contiguous along the strip, or the same all along."""
    return len(region.reduced) == 1 and all(
        region.reduced[0].stride(a).text in ("0", "1") for a in region.accesses if not a.counted
    )


def _with_long_rows(modes: Sequence[Mode], b: TensorAccess) -> tuple[Mode, ...]:
    """Return the modes of a product but its columns, with the longest along which `b` is the same as its rows: they
    are last. Few rows leave most of a tile idle, as those of a linear layer on what was transposed."""
    same = [mode for mode in modes[:-1] if mode.stride(b).text == "0"]
    longest = max((*same, modes[-1]), key=lambda mode: mode.extent.size)
    if modes[-1].extent.size >= _FEW_ROWS or longest is modes[-1]:
        return tuple(modes)
    return (*(mode for mode in modes if mode is not longest), longest)


def _batched(operand: Value, prod: Product, batch: Sequence[str]) -> list[Coordinate]:
    pairs = zip(operand.dims[:-2], prod.dims[:-2], batch, strict=True)
    return [None if repeats(own, full) else symbol for own, full, symbol in pairs]
