"""One change of a kernel file's text, and its kind."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
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

    kind: Kind
    start: int
    end: int
    after: str
