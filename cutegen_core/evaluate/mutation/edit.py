"""One change of a kernel file's text, and its kind."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MutantKind(StrEnum):
    """What a mutant changes."""

    COMPARISON = "comparison"
    """A comparison's bound or direction."""
    ARITHMETIC = "arithmetic"
    """An operator, or one operand left out."""
    LOGIC = "logic"
    """A logical or bitwise operator, or a shift."""
    CONDITION = "condition"
    """A condition that always, or never, holds."""
    CONSTANT = "constant"
    EPSILON = "epsilon"
    INITIAL = "initial"
    """The value a maximum or a sum starts from."""
    INDEX = "index"
    ORDER = "order"
    """Two arguments change places."""
    DTYPE = "dtype"
    PRECISION = "precision"
    """A value rounded to a narrower type."""
    CAP = "cap"
    """A bound or a value cut off where only large sizes or wide values reach it."""
    BARRIER = "barrier"
    WAIT = "wait"
    REDUCTION = "reduction"
    FUNCTION = "function"
    STATEMENT = "statement"
    """A statement left out."""
    LAUNCH = "launch"
    """The launch plan, or the launch bounds."""


class Edit(NamedTuple):
    """Replace the text from `start` to `end` by `after`."""

    kind: MutantKind
    start: int
    end: int
    after: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]

    def shorten(self, text: str) -> Edit:
        """Return the same change without what is equal on either side, so that equal changes are equal."""
        before = text[self.start : self.end]
        head = _count_shared(before, self.after)
        tail = _count_shared(before[head:][::-1], self.after[head:][::-1])
        return Edit(self.kind, self.start + head, self.end - tail, self.after[head : len(self.after) - tail])


def _count_shared(one: str, other: str) -> int:
    """Return how many characters both texts begin with."""
    differ = (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))
