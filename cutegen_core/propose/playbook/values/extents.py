"""Sizes as expressions of a launch plan, and numbers that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cutegen_core.records.errors import UsageError


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
    return Extent(text_of(size), int(size))


def agree(some: Sequence[Extent], others: Sequence[Extent]) -> bool:
    """Return whether extents are equal at every workload, as far as that is known."""
    return len(some) == len(others) and all(map(_agrees, some, others))


def _agrees(one: Extent, other: Extent) -> bool:
    seen = [e.size.everywhere for e in (one, other) if isinstance(e.size, Sized) and e.size.everywhere]
    return one.size == other.size and (len(seen) < 2 or seen[0] == seen[1])


def product(extents: Sequence[Extent]) -> Extent:
    """Return the product of sizes; 1 for none."""
    result = ONE
    for extent in extents:
        result = result.times(extent)
    return result
