"""Sizes as expressions of a launch plan, and numbers that follow them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from cutegen_core.records.errors import UsageError

_LARGEST_INT = 2**31 - 1


class NotInPlaybook(UsageError):  # noqa: N818 - it is an answer, not a failure
    """The playbook has no kernel for this reference; the text says what is missing and what is covered."""


@dataclass(frozen=True)
class Extent:
    """A size: an expression of the launch plan, and its value in the traced workload.

    Attributes:
        may_be_none: there is nothing left of what it was cut from at some sizes.
    """

    text: str
    size: int
    may_be_none: bool = field(default=False, compare=False)

    def times(self, other: Extent) -> Extent:
        if self.text == "1":
            return other
        return self if other.text == "1" else computed("{} * {}", operator.mul, self, other)

    def plus(self, other: Extent) -> Extent:
        if self.text == "0":
            return other
        return self if other.text == "0" else computed("({} + {})", operator.add, self, other)

    def less(self, other: Extent) -> Extent:
        """Return what is left without so much, as slices have it: nothing where that is more than there is."""
        if other.text == "0":
            return self
        if self.text == other.text:
            return replace(ZERO, may_be_none=True)
        if other.is_share_of(self):
            return combined(f"({self.text} - {other.text})", operator.sub, self, other)
        left = computed("max({} - {}, 0)", lambda whole, part: max(whole - part, 0), self, other)
        return replace(left, may_be_none=left.nothing or not left.text.isdigit())

    def is_share_of(self, whole: Extent) -> bool:
        """Tell whether it is a half of another size, a third, or less by a number: then it is less wherever there is
        something, and what is left is never nothing."""
        own = re.escape(whole.text)
        return re.fullmatch(rf"\({own} // ([2-9]|[1-9]\d+)\)|max\({own} - [1-9]\d*, 0\)", self.text) is not None

    @property
    def everywhere(self) -> tuple[float, ...]:
        """Return what it is at every workload, of a constant only once; () where that is not known."""
        if isinstance(self.size, Sized) and self.size.everywhere:
            return self.size.everywhere
        return (self.size,) if self.text.isdigit() else ()

    @property
    def single(self) -> bool:
        """Tell whether it is 1 at every workload, as far as that is known: then it need not be walked."""
        return self.size == 1 and all(size == 1 for size in self.everywhere)

    @property
    def nothing(self) -> bool:
        """Tell whether it is 0 at every workload, as far as that is known."""
        return self.size == 0 and not any(self.everywhere)

    @property
    def fits_int(self) -> bool:
        """Tell whether an int holds it at every workload, as far as that is known."""
        return max((self.size, *self.everywhere)) <= _LARGEST_INT

    @property
    def traced(self) -> Extent:
        """Return the number that it is in the traced workload; `extent(size)` may follow the sizes."""
        return Extent(str(int(self.size)), int(self.size))


ONE = Extent("1", 1)
ZERO = Extent("0", 0)


class Sized:
    """A number of a traced graph, with its expression for every workload: `graphs.sizes` finds it.

    Attributes:
        everywhere: what it is at every workload.
    """

    text: str
    everywhere: tuple[float, ...]

    @classmethod
    def of(cls, value: float, text: str, everywhere: tuple[float, ...] = ()) -> Self:
        """Return the number with its expression; "": it changes with the sizes in no known way."""
        made = cls(value)  # type: ignore[call-arg]  # a subclass is a number
        made.text, made.everywhere = text, everywhere
        return made


class SizedInt(Sized, int):
    """One that is whole."""


class SizedFloat(Sized, float):
    """One that is not."""


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
    return Extent(text_of(size), size if isinstance(size, SizedInt) else int(size))


def opposite(number: int) -> Extent:
    """Return a whole number of the graph with the other sign as a size: how far from the end an index is."""
    if not isinstance(number, Sized) or is_constant(number):
        return Extent(str(-number), -number)
    text = text_of(number)
    text = text.removeprefix("(0 - ").removesuffix(")") if text.startswith("(0 - ") else f"(0 - {text})"
    return Extent(text, SizedInt.of(-int(number), text, tuple(-n for n in number.everywhere)))


def at_most(one: Extent, other: Extent) -> Extent:
    """Return the smaller of two sizes; the first where it is never larger, as far as that is known."""
    seen = _side_by_side(one, other) or [(one.size, other.size)]
    if all(a <= b for a, b in seen):
        return one
    return other if all(a >= b for a, b in seen) else combined(f"min({one.text}, {other.text})", min, one, other)


def at_least_one(one: Extent) -> Extent:
    """Return a size to divide by: 1 where it is nothing at one of the workloads."""
    seen = _side_by_side(one) or [(one.size,)]
    return one if all(size > 0 for (size,) in seen) else combined(f"max({one.text}, 1)", lambda n: max(n, 1), one)


def agree(some: Sequence[Extent], others: Sequence[Extent]) -> bool:
    """Return whether extents are equal at every workload, as far as that is known."""
    return len(some) == len(others) and all(map(_agrees, some, others))


def fits(dims: Sequence[Extent], sizes: Sequence[int]) -> bool:
    """Return whether extents are these numbers of a graph at every workload, as far as that is known."""
    return agree(dims, [Extent("", size) for size in sizes])


def combined(text: str, of: Callable[..., int], *extents: Extent) -> Extent:
    """Return what is computed of sizes, at every workload where all are known there.

    Raises:
        NotInPlaybook: one of them divides, and is 0 at a workload.
    """
    seen = _side_by_side(*extents)
    try:
        size = of(*(extent.size for extent in extents))
        values = tuple(of(*map(int, sizes)) for sizes in seen)
    except ZeroDivisionError as error:
        raise NotInPlaybook(f"{text}, which divides by 0 at one of the workloads, is not in the playbook") from error
    none = any(extent.may_be_none for extent in extents)
    return Extent(text, SizedInt.of(size, text, values) if len(values) > 1 else size, none)


def computed(form: str, of: Callable[..., int], *extents: Extent) -> Extent:
    """Return what is computed of sizes, by a form of expression for their texts; of numbers, their result."""
    texts = [extent.text for extent in extents]
    if all(map(str.isdigit, texts)):
        return extent(of(*map(int, texts)))
    return combined(form.format(*texts), of, *extents)


def in_order(dims: Sequence[Extent], strides: Sequence[Extent]) -> bool:
    """Return whether elements are walked in the order in which they lie side by side, at every workload."""
    step = ONE
    for extent, stride in zip(reversed(dims), reversed(strides), strict=True):
        if not extent.single and not _agrees(stride, step):
            return False
        step = step.times(extent)
    return True


def repeats(own: Extent, full: Extent) -> bool:
    """Return whether PyTorch repeats what has the first extent along the second."""
    return own.size == 1 and (full.size != 1 or (own.single and not full.single))


def is_less(one: Extent, other: Extent) -> bool:
    """Return whether the first is less at the first workload where they differ: the traced one, or another."""
    if one.size != other.size:
        return one.size < other.size
    return next((a < b for a, b in _side_by_side(one, other) if a != b), False)


def _agrees(one: Extent, other: Extent) -> bool:
    return one.size == other.size and all(a == b for a, b in _side_by_side(one, other))


def _side_by_side(*extents: Extent) -> list[tuple[float, ...]]:
    """Return the sizes at every workload; nothing where one is not known."""
    known = [extent.everywhere for extent in extents]
    many = max(map(len, known))
    return list(zip(*(v * many if len(v) == 1 else v for v in known), strict=True)) if all(known) else []


def product(extents: Sequence[Extent]) -> Extent:
    """Return the product of sizes; 1 for none."""
    result = ONE
    for extent in extents:
        result = result.times(extent)
    return result
