"""What one forward of a reference does and costs, as far as that says whether another size is as good a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cutegen_core.records.errors import ProblemError

EVEN = 4
"""What divides a size of whole vectors."""


class ForwardCall(NamedTuple):
    """Holds one operation of a forward.

    Attributes:
        repeated: the operands that are broadcast: their number and the dimension, from the last.
        extents: those of all of its results, one after the other.
        batches: how many products of matrices it is.
        cropped: of a pad, the sides that lose elements.
    """

    operation: str
    repeated: frozenset[tuple[int, int]]
    extents: tuple[int, ...]
    batches: int = 1
    cropped: frozenset[int] = frozenset()

    @property
    def pads(self) -> bool:
        """Return whether it is a pad."""
        return self.operation.startswith("aten.constant_pad_nd")

    def does_as(self, other: ForwardCall) -> bool:
        """Return whether both are the same operation, which broadcasts here nothing that it does not there, squeezes as
        many dimensions, and crops the same sides."""
        squeezes = self.operation.startswith("aten.squeeze")
        return (
            self.operation == other.operation
            and self.repeated <= other.repeated
            and (not squeezes or len(self.extents) == len(other.extents))
            and self.cropped == other.cropped
        )


@dataclass(frozen=True)
class Cost:
    """Cost of one forward.

    Attributes:
        elements: of all inputs, parameters and operation results together.
        flops: of products and convolutions.
    """

    elements: int
    flops: int

    @property
    def total(self) -> int:
        return self.elements + self.flops

    def within(self, other: Cost) -> bool:
        """Return whether this cost exceeds the other in nothing."""
        return self.elements <= other.elements and self.flops <= other.flops


class WrongForwardError(ProblemError):
    """The file fails at its own sizes, whatever its values are."""


class LongForwardError(ProblemError):
    """The forward does more operations at the file's own sizes than can be followed."""


@dataclass(frozen=True)
class Forward:
    """Holds what one forward does: its operations in order, their cost, and whether PyTorch leaves one a choice."""

    cost: Cost
    calls: tuple[ForwardCall, ...] = ()
    chooses: bool = False

    def does_as(self, other: Forward) -> bool:
        """Return whether both do the same, one operation after the other."""
        return len(self.calls) == len(other.calls) and all(
            a.does_as(b) for a, b in zip(self.calls, other.calls, strict=True)
        )

    def repeats_as(self, other: Forward) -> bool:
        """Return whether this one, which does the same operations, also broadcasts all that the other does."""
        return all(a.repeated >= b.repeated for a, b in zip(self.calls, other.calls, strict=True))

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the extents of all results, one after the other."""
        return tuple(extent for call in self.calls for extent in call.extents)

    def cuts_as(self, other: Forward) -> bool:
        """Return whether both crop the same sides, and this one leaves nothing empty unless the other does."""
        mine, theirs = ([call.cropped for call in one.calls if call.pads] for one in (self, other))
        return mine == theirs and (other.is_empty or not self.is_empty)

    @property
    def is_empty(self) -> bool:
        """Return whether a result has no elements."""
        return 0 in self.extents

    @property
    def batches(self) -> int:
        """Return how many products of matrices the operation with most of them is."""
        return max((call.batches for call in self.calls), default=1)

    def is_of_batch(self, size: int, other: Forward, other_size: int) -> bool:
        """Return whether both do the same for each element of a batch, the first dimension of what they make last."""
        if len(self.calls) != len(other.calls) or self.cost.flops * other_size != other.cost.flops * size:
            return False
        pairs = [(a.extents, b.extents) for a, b in zip(self.calls, other.calls, strict=True) if a.extents]
        unlike = [(own, theirs) for own, theirs in pairs if own != theirs]
        changed = [{pair for pair in zip(own, theirs, strict=False) if len(set(pair)) > 1} for own, theirs in unlike]
        first = all(own[0] == size for own, _ in unlike)
        return unlike[-1:] == pairs[-1:] and first and all(one == {(size, other_size)} for one in changed)

    def is_even_as(self, other: Forward) -> bool:
        """Return whether four divides every extent that it divides in the other, which does the same operations."""
        own, theirs = self.extents, other.extents
        return len(own) == len(theirs) and not any(a % EVEN and b % EVEN == 0 for a, b in zip(own, theirs, strict=True))
