"""The elements that a kernel walks row by row, and which results can share them.

A domain has the extents of what is reduced, or of the largest of the results; a symbol for each dimension says whether
it is walked within a row (r0, r1, ...) or from row to row (o0, o1, ...). A result belongs to it that is made of its
elements, one for each element or one for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.terms import Coordinate
from cutegen_core.propose.playbook.values import (
    Accumulated,
    Compute,
    DotProductAttention,
    Extent,
    Join,
    Move,
    Recurrent,
    Reduce,
    Reshape,
    Sorted,
    Taken,
    Value,
    Viewed,
    agree,
    reductions,
    walk,
)

OWN_REGION = (Accumulated, DotProductAttention, Sorted, Recurrent, Reshape, Viewed, Join, Taken)
"""What other kernels write, or what is not addressed element by element."""


@dataclass(frozen=True)
class Domain:
    """Extents, and a symbol for each; None for an extent of 1 that is walked neither way."""

    dims: tuple[Extent, ...]
    symbols: tuple[Coordinate, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dims)

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the dimensions that are walked within a row."""
        return tuple(k for k, s in enumerate(self.symbols) if s is not None and s.startswith("r"))

    def is_like(self, other: Domain) -> bool:
        """Return whether the other one has the same elements, walked in the same rows."""
        return self.symbols == other.symbols and agree(self.dims, other.dims)

    def coordinates(self, value: Value) -> list[Coordinate] | None:
        """Return the coordinates of a value's dimensions; None if it has neither an element's nor a row's extents."""
        if agree(value.dims, self.dims):
            return list(self.symbols)
        longer, own = [k for k, d in enumerate(self.dims) if not d.single], [d for d in value.dims if not d.single]
        if agree(own, [self.dims[k] for k in longer]):
            return self._placed(value, longer)
        rows = [k for k in longer if k not in self.axes]
        if not agree(own, [self.dims[k] for k in rows]):
            return None
        return self._placed(value, rows)

    def has_one_a_row(self, value: Value) -> bool:
        """Return whether the value has one element for each row."""
        found = self.coordinates(value)
        return found is not None and {self.symbols[k] for k in self.axes}.isdisjoint(found)

    def _placed(self, value: Value, dimensions: Sequence[int]) -> list[Coordinate]:
        """Return these dimensions' symbols for the value's own, in order, without those of 1."""
        symbols = (self.symbols[k] for k in dimensions)
        return [None if d.single else next(symbols) for d in value.dims]

    def holds(self, value: Value) -> bool:
        """Return whether the value is computed within a row, with no tensor between."""
        inner = list(walk(value, Compute, Move, Reduce))
        plain = not any(isinstance(v, OWN_REGION) for v in inner)
        own = all(agree(v.operand.dims, self.dims) and v.axes == self.axes for v in inner if isinstance(v, Reduce))
        return plain and own and self.coordinates(value) is not None


def row_domain(value: Value) -> Domain | None:
    """Return the domain of the last reduction that the value belongs to; None if there is none.

    The last is made of the most others: of a softmax of normalised columns that is its sum, not a column's mean.
    """
    for reduction in sorted(reductions(value), key=lambda one: -one.height):
        found = _over(reduction.operand.dims, reduction.axes, agree(value.dims, reduction.operand.dims))
        if found.coordinates(value) is not None:
            return found
    return None


def strips_domain(value: Value, rows: int) -> Domain | None:
    """Return the domain in which the value's first `rows` dimensions count rows, the others elements of a strip."""
    if not 0 < rows < len(value.dims):
        return None
    return _over(value.dims, [k for k in range(rows, len(value.dims)) if not value.dims[k].single], True)


def grouped(values: Sequence[Value]) -> list[list[int]]:
    """Return which values share a region, by position: first of each the one whose elements are walked."""
    left = sorted(range(len(values)), key=lambda k: (row_domain(values[k]) is None, -values[k].numel))
    groups: list[list[int]] = []
    while left:
        groups.append(_group(values, left))
        left = [k for k in left if k not in groups[-1]]
    return groups


def share_rows(value: Value, other: Value) -> bool:
    """Return whether both reduce the same rows, so that one region can write them: one may be made of the other if
    nothing lies between that another kernel writes."""
    domain, walked = row_domain(value), row_domain(other)
    if domain is None or walked is None or not domain.is_like(walked):
        return False
    within = domain.holds(value) and domain.holds(other)
    return within or not (is_made_of(value, other) or is_made_of(other, value))


def is_made_of(value: Value, other: Value) -> bool:
    """Return whether a value of reductions, views and arithmetic has another one in it; of any other, it may have."""
    parts = walk(value, Compute, Move, Reduce, Reshape, Viewed)
    unknown = Accumulated | DotProductAttention | Sorted | Recurrent | Join | Taken
    return any(part is other or isinstance(part, unknown) for part in parts)


def _group(values: Sequence[Value], positions: Sequence[int]) -> list[int]:
    """Return the first of these positions, with those that share its region."""
    first, found = values[positions[0]], [positions[0]]
    domain = row_domain(first)
    if domain is None and not _is_pointwise(first):
        return found
    for k in positions[1:]:
        value = values[k]
        if domain is None and agree(value.dims, first.dims):
            found += [k] if _is_pointwise(value) else []
            continue
        walked = domain or strips_domain(first, len(value.dims))
        if walked is not None and walked.holds(value):
            found.append(k)
            domain = walked
    return found


def _is_pointwise(value: Value) -> bool:
    return not any(isinstance(v, (*OWN_REGION, Reduce)) for v in walk(value, Compute, Move, Reduce))


def _over(dims: Sequence[Extent], axes: Sequence[int], full: bool) -> Domain:
    names: dict[int, Coordinate] = {axis: f"r{j}" for j, axis in enumerate(axes)}
    symbols = [names.get(k, f"o{k}" if full or not d.single else None) for k, d in enumerate(dims)]
    return Domain(tuple(dims), tuple(symbols))
