"""Describe which elements of a tensor matter, precisely enough for counting, without ever listing elements.

A region is one of four things: the whole tensor, boxes (from slices), a triangle of the last two dimensions, or only a
number: "at least so many, at unknown places". An operation may lose places but never adds elements, so a final count is
a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""[start, stop) along each dimension."""

_MOST_BOXES = 8


@dataclass(frozen=True)
class Triangle:
    """Elements of the last two dimensions with column - row >= `offset` (upper) or <= `offset` (lower)."""

    lower: bool
    offset: int = 0

    def flipped(self) -> Triangle:
        """Return the triangle of the transposed tensor."""
        return Triangle(not self.lower, -self.offset)

    def count(self, rows: int, columns: int) -> int:
        """Return the number of elements of a matrix in it."""
        return (
            _ramp(rows, self.offset + 1, columns) if self.lower else rows * columns - _ramp(rows, self.offset, columns)
        )


@dataclass(frozen=True)
class ElementSet:
    """Elements of a tensor of `shape`; at most one of `boxes`, `triangle` and `at_least` describes them."""

    shape: Shape
    boxes: tuple[Box, ...] = ()
    triangle: Triangle | None = None
    at_least: int = 0

    @classmethod
    def all(cls, shape: Shape) -> ElementSet:
        return cls(shape, (tuple((0, extent) for extent in shape),))

    @classmethod
    def none(cls, shape: Shape) -> ElementSet:
        return cls(shape)

    @classmethod
    def some(cls, shape: Shape, count: int) -> ElementSet:
        """Return at least `count` elements at unknown places; all elements if the tensor has no more."""
        return cls.all(shape) if count >= prod(shape) else cls(shape, at_least=max(0, count))

    @property
    def count(self) -> int:
        """Number of elements, or the least number of them."""
        if self.triangle is not None:
            *outer, rows, columns = self.shape
            return prod(outer) * self.triangle.count(rows, columns)
        return self.at_least or _union(self.boxes)

    @property
    def full(self) -> bool:
        return self.count == prod(self.shape)

    def __or__(self, other: ElementSet) -> ElementSet:
        """Return the elements of either region."""
        if self.boxes and other.boxes:
            boxes = tuple(dict.fromkeys((*self.boxes, *other.boxes)))
            merged = ElementSet(self.shape, boxes) if len(boxes) <= _MOST_BOXES else max(self, other, key=_count)
            return ElementSet.all(self.shape) if merged.full else merged
        if self.triangle and other.triangle and self.triangle.lower != other.triangle.lower:
            lower, upper = (self, other) if self.triangle.lower else (other, self)
            assert lower.triangle is not None
            assert upper.triangle is not None
            if upper.triangle.offset <= lower.triangle.offset + 1:
                return ElementSet.all(self.shape)
        return max(self, other, key=_count)

    def within(self, triangle: Triangle | None) -> ElementSet:
        """Return the elements that also lie in a triangle."""
        if triangle is None or len(self.shape) < 2:
            return self
        if self.full:
            return ElementSet(self.shape, triangle=triangle)
        if self.triangle is not None and self.triangle.lower == triangle.lower:
            choose = min if triangle.lower else max
            return ElementSet(
                self.shape, triangle=Triangle(triangle.lower, choose(triangle.offset, self.triangle.offset))
            )
        outside = prod(self.shape) - ElementSet(self.shape, triangle=triangle).count
        return ElementSet.some(self.shape, self.count - outside)

    def moved(self, shape: Shape) -> ElementSet:
        """Return the same elements in another shape; places survive only if the shape is equal or the region full."""
        if shape == self.shape:
            return self
        return ElementSet.all(shape) if self.full else ElementSet.some(shape, self.count)

    def permuted(self, order: tuple[int, ...], shape: Shape) -> ElementSet:
        """Return the region under a permutation: its dimension k is dimension order[k] of the result."""
        if self.triangle is not None:
            last = len(order) - 1
            if order[-2:] == (last - 1, last):
                return ElementSet(shape, triangle=self.triangle)
            if order[-2:] == (last, last - 1):
                return ElementSet(shape, triangle=self.triangle.flipped())
            return ElementSet.some(shape, self.count)
        back = {target: source for source, target in enumerate(order)}
        boxes = tuple(tuple(box[back[k]] for k in range(len(order))) for box in self.boxes)
        return ElementSet(shape, boxes, at_least=self.at_least)

    def projected(self, shape: Shape) -> ElementSet:
        """Return the operand's part under broadcasting: `shape` has at most as many dimensions, each equal or 1."""
        if shape == self.shape or self.full:
            return self if shape == self.shape else ElementSet.all(shape)
        if not self.boxes:
            return ElementSet.some(shape, -(-self.count * prod(shape) // max(1, prod(self.shape))))
        skip = len(self.shape) - len(shape)
        boxes = (tuple((0, 1) if extent == 1 else side for extent, side in zip(shape, box[skip:], strict=True))
                 for box in self.boxes)  # fmt: skip
        return ElementSet(shape, tuple(dict.fromkeys(boxes)))

    def shifted(self, shape: Shape, dim: int, start: int, step: int = 1) -> ElementSet:
        """Return the source's part of a slice: index i along `dim` is start + i * step there."""
        if not self.boxes or step != 1:
            return ElementSet.some(shape, self.count)
        return ElementSet(shape, tuple(_replaced(b, dim, (b[dim][0] + start, b[dim][1] + start)) for b in self.boxes))

    def widened(self, dim: int) -> ElementSet:
        """Return the whole lines along `dim` that have an element in it."""
        return ElementSet(self.shape, tuple(dict.fromkeys(_replaced(b, dim, (0, self.shape[dim])) for b in self.boxes)))

    def clipped(self, shape: Shape, dim: int, start: int) -> ElementSet:
        """Return one part of a concatenation, which begins at `start` along `dim`."""
        if not self.boxes:
            missing = prod(self.shape) - self.count
            return ElementSet.some(shape, prod(shape) - missing)
        sides = [(max(0, b[dim][0] - start), min(shape[dim], b[dim][1] - start)) for b in self.boxes]
        kept = [_replaced(b, dim, s) for b, s in zip(self.boxes, sides, strict=True) if s[0] < s[1]]
        return ElementSet(shape, tuple(kept))


def _ramp(rows: int, first: int, most: int) -> int:
    """Return the sum of first + r over the rows, each term limited to 0 ... most."""
    begin = min(rows, max(0, -first))
    end = min(rows, max(begin, most - first))
    return (end - begin) * (2 * first + begin + end - 1) // 2 + (rows - end) * most


def _count(region: ElementSet) -> int:
    return region.count


def _replaced(box: Box, dim: int, side: tuple[int, int]) -> Box:
    return (*box[:dim], side, *box[dim + 1 :])


def _union(boxes: tuple[Box, ...]) -> int:
    """Return the number of elements in any of the boxes; the edges cut space into cells inside or outside."""
    if not boxes:
        return 0
    if len(boxes) == 1:
        return prod(max(0, stop - start) for start, stop in boxes[0])
    cuts = [sorted({edge for box in boxes for edge in box[dim]}) for dim in range(len(boxes[0]))]
    cells = product(*(pairwise(edges) for edges in cuts))
    return sum(prod(stop - start for start, stop in cell) for cell in cells if any(_inside(cell, b) for b in boxes))


def _inside(cell: Box, box: Box) -> bool:
    return all(start <= low and high <= stop for (low, high), (start, stop) in zip(cell, box, strict=True))
