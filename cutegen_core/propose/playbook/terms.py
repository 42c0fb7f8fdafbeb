"""Turn values at coordinates into scalar terms, ready to be written as C++ statements.

A region (one kernel) has a domain of symbols: output coordinates o0, o1, ..., reduction coordinates r0, r1, ...
`Terms.at(value, coordinates)` walks a value top-down and leaves one term for every distinct scalar met on the way.
What a region cannot hold inside itself (another product, a reduction over something else) goes through `materialise`,
which puts it into a scratch buffer written by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutegen_core.propose.playbook.pointwise.filling import fill, literal
from cutegen_core.propose.playbook.values import (
    COMPUTE_TYPE,
    POSITIONS,
    ZERO,
    Accumulated,
    Compute,
    Constant,
    Extent,
    Load,
    Move,
    NotInPlaybook,
    Reduce,
    Scan,
    SegmentReduce,
    Size,
    Taken,
    Value,
    Viewed,
    agree,
    position,
    product,
    reductions,
    repeats,
    walk,
)

Coordinate = str | None
"""A symbol of the domain, or None for position 0."""


@dataclass(frozen=True)
class TensorAccess:
    """How a tensor is addressed over the domain: strides by symbol, in elements; a symbol not named has stride 0.

    Attributes:
        whole: what a product adds up lies in whole, aligned vectors, at every workload.
    """

    tensor: str
    dtype: str
    strides: Mapping[str, Extent]
    offset: Extent = ZERO
    whole: bool = False

    def stride(self, symbol: str) -> Extent:
        return self.strides.get(symbol, ZERO)

    @property
    def counted(self) -> bool:
        """Return whether its elements are positions, not memory."""
        return self.tensor == POSITIONS


@dataclass(frozen=True)
class Term:
    """One scalar variable of the kernel.

    Attributes:
        ctype: type of its arithmetic.
        code: C++ of a pointwise term.
        needs: names of the terms it is made of.
        varies: depends on a reduction coordinate.
        level: how many reductions must be complete before it can be computed.
        access: set for a load.
        reduction: (kind, name of the reduced term) for a reduction.
    """

    name: str
    ctype: str
    code: str = ""
    needs: tuple[str, ...] = ()
    varies: bool = False
    level: int = 0
    access: TensorAccess | None = None
    reduction: tuple[str, str] | None = None


@dataclass
class Terms:
    """The terms of one region, collected as values are asked for.

    Attributes:
        extents: symbol -> size.
        materialise: turns a value into a scratch tensor written earlier.
        accumulator: what this region accumulates: a product, convolution or pooling, whose term is called "acc", a
            scan, or segments.
        sizes: numbers that depend on the workload and become kernel arguments: name -> (type, expression).
        fast: use approximate intrinsics where there are some.
        takes: elements at places that other tensors hold are read here, through a pointer; otherwise they are copied by
            a kernel of their own.
        pointers: such tensors, with their dtypes; in C++ the first is "source0".
    """

    extents: Mapping[str, Extent]
    materialise: Callable[[Value], Load]
    accumulator: Accumulated | None = None
    terms: dict[str, Term] = field(default_factory=dict)
    sizes: dict[str, tuple[str, str]] = field(default_factory=dict)
    fast: bool = False
    takes: bool = False
    pointers: dict[str, str] = field(default_factory=dict)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)
    _found: dict[tuple[Value, tuple[Coordinate, ...]], str] = field(default_factory=dict)

    def emptied(self) -> Terms:
        """Return terms of the same region before any value was asked for."""
        return Terms(self.extents, self.materialise, self.accumulator, fast=self.fast, takes=self.takes)

    @property
    def reduced(self) -> tuple[str, ...]:
        """Return the reduction symbols, slowest first."""
        return tuple(s for s in self.extents if s.startswith("r"))

    @property
    def loads(self) -> list[Term]:
        return [t for t in self.terms.values() if t.access is not None]

    def at(self, value: Value, coordinates: Sequence[Coordinate]) -> str:
        """Return the name (or literal) of `value` at these coordinates."""
        key = (value, tuple(coordinates))
        if key not in self._found:
            self._found[key] = self._made(value, coordinates)
        return self._found[key]

    def _made(self, value: Value, coordinates: Sequence[Coordinate]) -> str:
        match value:
            case Constant():
                return literal(value.number, COMPUTE_TYPE[value.dtype])
            case Size():
                return self._size(value)
            case Move():
                return self.at(value.operand, [None if s is None else coordinates[s] for s in value.sources])
            case Load():
                return self._load(value, coordinates)
            case Compute() if self._follows_another(value) or self._is_of_other_rows(value, coordinates):
                return self._load(self.materialise(value), coordinates)
            case Compute():
                return self._compute(value, coordinates)
            case Reduce():
                return self._reduce(value, coordinates)
            case Taken() if self.takes:
                return self._take(value, coordinates)
            case Viewed():
                return self._load(value.view(self.materialise(value.operand)), coordinates)
            case Accumulated() if value is self.accumulator:
                return self._accumulated(value, coordinates)
        return self._load(self.materialise(value), coordinates)

    def _accumulated(self, value: Accumulated, coordinates: Sequence[Coordinate]) -> str:
        if isinstance(value, Scan):
            return self._scan(value, coordinates)
        return self._segment(value, coordinates) if isinstance(value, SegmentReduce) else "acc"

    def _follows_another(self, value: Compute) -> bool:
        """Return whether another kernel adds up what the value is made of, and can compute the rest of it, too."""
        if value.accumulated is None:
            return False
        parts = walk(value, Compute, Move)
        return not any(part is self.accumulator or isinstance(part, Reduce) for part in parts)

    def _is_of_other_rows(self, value: Compute, coordinates: Sequence[Coordinate]) -> bool:
        """Return whether a reduction here reads the value, a number for each row of another kernel, which computes it
        once: 1 over the root of a variance."""
        if not value.of_sums or not value.height or self.takes or not any(c in self.reduced for c in coordinates):
            return False
        sums = list(_sums(value, coordinates))
        own, others = _longer(value.dims), [_longer(one.dims) for one, _ in sums]
        same_rows = all(agree(own, dims) for dims in others)
        return same_rows and not any(self._reduces(one, place) for one, place in sums)

    def _reduces(self, value: Reduce, coordinates: Sequence[Coordinate]) -> bool:
        """Return whether the region walks over what is reduced, at each of its rows."""
        fits = agree([value.operand.dims[k] for k in value.axes], [self.extents[s] for s in self.reduced])
        return fits and not any(c in self.reduced for k, c in enumerate(coordinates) if k not in value.axes)

    def _size(self, value: Size) -> str:
        ctype = COMPUTE_TYPE[value.dtype]
        for name, known in self.sizes.items():
            if known == (ctype, value.text):
                return name
        name = "count" if not self.sizes else f"count{len(self.sizes)}"
        self.sizes[name] = (ctype, value.text)
        return name

    def _load(self, value: Load, coordinates: Sequence[Coordinate]) -> str:
        strides: dict[str, Extent] = {}
        for symbol, stride in zip(coordinates, value.strides, strict=True):
            if symbol is not None and not stride.nothing:
                known = strides.get(symbol)
                strides[symbol] = stride if known is None else known.plus(stride)
        key = ("load", value.tensor, tuple(sorted((s, e.text) for s, e in strides.items())), value.offset.text)
        access = TensorAccess(value.tensor, value.dtype, strides, value.offset)
        varies = any(s in self.reduced for s in strides)
        return self._term(key, COMPUTE_TYPE[value.dtype], access=access, varies=varies)

    def _compute(self, value: Compute, coordinates: Sequence[Coordinate]) -> str:
        operands = [self.at(o, _aligned(o, value, coordinates)) for o in value.operands]
        half = value.dtype in ("float16", "bfloat16")
        return self._formula(value.code, operands, COMPUTE_TYPE[value.dtype], half=half)

    def _formula(self, formula: str, operands: Sequence[str], ctype: str, *, half: bool = False) -> str:
        code = fill(formula, tuple(operands), ctype, fast=self.fast, half=half)
        needs = tuple(o for o in operands if o in self.terms or o == "acc")
        return self._term(("compute", ctype, code), ctype, code=code, needs=needs, **self._inherited(needs))

    def _take(self, value: Taken, coordinates: Sequence[Coordinate]) -> str:
        """Return the term of an element whose offset is computed: what its own coordinates make, and a product for each
        place."""
        source, places, sources = self._taken_of(value)
        own, factors = [ZERO] * len(value.dims), list[str]()
        for stride, place, axis in zip(source.strides, places, sources, strict=True):
            if place is not None:
                factors += [self.at(place, _aligned(place, value, coordinates)), self._number(stride)]
            elif axis is not None:
                own[axis] = own[axis].plus(stride) if own[axis].size else stride
        beside = self._load(Load(value.dims, "int64", POSITIONS, tuple(own), source.offset), coordinates)
        products = "".join(f" + {{{k}}} * {{{k + 1}}}" for k in range(2, 2 + len(factors), 2))
        code = f"static_cast<{{T}}>({{0}}[{{1}}{products}])"
        operands = [self._pointer(source), beside, *factors]
        if any(extent.may_be_none for extent in source.dims):  # the result is not made of it where it has no elements
            code = f"{{{len(operands)}}} > 0 ? {code} : {{T}}(0)"
            operands.append(self._number(product(source.dims)))
        return self._formula(code, operands, COMPUTE_TYPE[value.dtype])

    def _taken_of(self, value: Taken) -> tuple[Load, Sequence[Value | None], Sequence[int | None]]:
        """Return the tensor in memory that is read, and for each of its dimensions what indexes it."""
        operand, places, sources = value.operand, value.places, value.sources
        while isinstance(operand, Move):
            places = tuple(None if s is None else places[s] for s in operand.sources)
            sources = tuple(None if s is None else sources[s] for s in operand.sources)
            operand = operand.operand
        return self.materialise(operand), places, sources

    def _pointer(self, source: Load) -> str:
        self.pointers.setdefault(source.tensor, source.dtype)
        return f"source{list(self.pointers).index(source.tensor)}"

    def _number(self, extent: Extent) -> str:
        return f"{extent.text}L" if extent.text.isdigit() else self._size(Size((), "int64", extent.text))

    def _inherited(self, needs: Sequence[str]) -> dict[str, object]:
        known = [self.terms[n] for n in needs if n in self.terms]
        return {"varies": any(t.varies for t in known), "level": max((t.level for t in known), default=0)}

    def _reduce(self, value: Reduce, coordinates: Sequence[Coordinate]) -> str:
        symbols = iter(self.reduced)
        inner: list[Coordinate] = [next(symbols, "?") if k in value.axes else c for k, c in enumerate(coordinates)]
        if not self._reduces(value, coordinates):
            return self._load(self.materialise(value), coordinates)
        source = self.materialise(value.operand) if self._is_of_rows(value.operand) else value.operand
        operand = self.at(source, inner)
        if operand not in self.terms or not self.terms[operand].varies:
            raise NotInPlaybook("a reduction of something that is the same everywhere is not in the playbook")
        level = self.terms[operand].level + 1
        key = ("reduce", value.kind, operand)
        return self._term(
            key, COMPUTE_TYPE[value.dtype], reduction=(value.kind, operand), needs=(operand,), level=level
        )

    def _is_of_rows(self, value: Value) -> bool:
        """Return whether another kernel should compute the value whole: it is made of larger things that it reduces."""
        found = list(reductions(value))
        return bool(found) and all(r.operand.numel > value.numel for r in found)

    def _scan(self, value: Scan, coordinates: Sequence[Coordinate]) -> str:
        """Return the term of a scan: it varies along the row, and is no statement of its own."""
        operand = self.at(self._without_reductions(value.operand), coordinates)
        if operand not in self.terms or not self.terms[operand].varies:
            raise NotInPlaybook("a scan of something that is the same everywhere is not in the playbook")
        ctype = COMPUTE_TYPE[value.dtype]
        return self._term(("scan", operand), ctype, reduction=(value.kind, operand), needs=(operand,), varies=True)

    def _segment(self, value: SegmentReduce, coordinates: Sequence[Coordinate]) -> str:
        """Return the term of a segment's reduction, which is complete after one walk over its elements."""
        operand = self.at(self._without_reductions(value.operand), _along_row(value, coordinates))
        needs = (operand, self.place_of(value, coordinates))
        key, ctype = ("segment", value.kind, operand), COMPUTE_TYPE[value.dtype]
        return self._term(key, ctype, reduction=(value.kind, operand), needs=needs, level=1)

    def place_of(self, value: SegmentReduce, coordinates: Sequence[Coordinate]) -> str:
        """Return the term of where a segment lies along the axis."""
        return self.at(position(value.dims, value.axis), coordinates)

    def order_of(self, value: SegmentReduce, coordinates: Sequence[Coordinate]) -> str:
        """Return the term of the numbers that say which elements belong to a segment."""
        row = _along_row(value, coordinates)
        return self.at(value.order, _aligned(value.order, value.operand, row))

    def _without_reductions(self, value: Value) -> Value:
        """Return the value, from memory if reductions are a part of it."""
        return self.materialise(value) if any(reductions(value)) else value

    def _term(self, key: tuple[object, ...], ctype: str, **facts: object) -> str:
        if key not in self._known:
            name = f"v{len(self.terms)}"
            self.terms[name] = Term(name, ctype, **facts)  # type: ignore[arg-type]
            self._known[key] = name
        return self._known[key]

    def closure(self, roots: Sequence[str], *, varying: bool) -> list[Term]:
        """Return what must be computed for `roots`, in order; reductions are there already."""
        wanted: set[str] = set()
        pending = [r for r in roots if r in self.terms]
        while pending:
            term = self.terms[pending.pop()]
            if term.name not in wanted and term.reduction is None:
                wanted.add(term.name)
                pending += [n for n in term.needs if n in self.terms]
        return [t for t in self.terms.values() if t.name in wanted and t.varies == varying]


def _sums(value: Value, coordinates: Sequence[Coordinate]) -> Iterator[tuple[Reduce, Sequence[Coordinate]]]:
    """Yield the outermost reductions of a value, each at its coordinates; one of several ways to it."""
    left, seen = [(value, coordinates)], set[Value]()
    while left:
        part, place = left.pop()
        if part in seen:
            continue
        seen.add(part)
        if isinstance(part, Reduce):
            yield part, place
        elif isinstance(part, Compute):
            left += [(o, _aligned(o, part, place)) for o in part.operands]
        elif isinstance(part, Move):
            left.append((part.operand, [None if s is None else place[s] for s in part.sources]))


def _longer(dims: Sequence[Extent]) -> list[Extent]:
    return [extent for extent in dims if not extent.single]


def _along_row(value: SegmentReduce, coordinates: Sequence[Coordinate]) -> list[Coordinate]:
    """Return the coordinates of a segment's elements: along the axis they are walked."""
    return ["r0" if k == value.axis else c for k, c in enumerate(coordinates)]


def _aligned(operand: Value, whole: Value, coordinates: Sequence[Coordinate]) -> list[Coordinate]:
    lead = len(whole.dims) - len(operand.dims)
    pairs = zip(operand.dims, whole.dims[lead:], coordinates[lead:], strict=True)
    return [None if repeats(own, full) else c for own, full, c in pairs]
