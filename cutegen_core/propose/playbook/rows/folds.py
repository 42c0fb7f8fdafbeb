"""Say what a team computes on each walk over its row: the passes of its reductions, of which two may be one.

The largest element, and then the sum of what is exponential in the distance from it, take one walk: a sum so far is
relative to the largest element so far, and is rescaled when a larger one comes. So do a mean, and then the sum of the
squares of what is away from it: each thread has both relative to its first element, which is as good as any, since one
that lies far away makes the sum large as well. So a softmax or a norm waits once for its team.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.statements import PassText, ReductionText, StoreText, TermText

Together = Literal["", "exponentials", "squares"]
_EXPONENTIAL = re.compile(r"(\w*exp\w*)\((\w+)\)")
_NOT_ABOVE_ZERO = {"expf": "exp_to_one"}
"""Exponentials, and those that take fewer instructions where no argument is above zero."""
_WORDS = {"float": 1, "int": 1}
"""Of the types of arithmetic that have not two."""


@dataclass(frozen=True)
class PartText:
    """What a thread, a warp or a block has of the row: a C++ type, its value for nothing, and for what a thread read.

    Attributes:
        words: of 32 bits.
    """

    name: str
    ctype: str
    none: str
    mine: str
    words: int


@dataclass(frozen=True)
class Fold:
    """One walk over the row.

    Attributes:
        tensors: what it reads.
        between: what follows from the first of two reductions that are made together.
        together: what the second one sums, relative to the first; "" for all other reductions.
        function: the exponential.
        number: which of the walks it is.
    """

    tensors: Sequence[TensorText]
    terms: tuple[TermText, ...]
    reductions: tuple[ReductionText, ...]
    stores: tuple[StoreText, ...]
    after: tuple[TermText, ...]
    between: tuple[TermText, ...] = ()
    together: Together = ""
    function: str = ""
    number: int = 0

    @property
    def pivot(self) -> str:
        """Return the name of what squares are relative to."""
        return f"pivot{self.number}"

    @property
    def counted(self) -> str:
        """Return the name of how many elements a thread has squared."""
        return f"counted{self.number}"

    @property
    def parts(self) -> list[PartText]:
        """Return what the walk makes, in the order in which blocks tell it."""
        first = self.reductions[0]
        size = _WORDS.get(first.ctype, 2)
        sums = ", ".join(r.sum for r in self.reductions)
        if self.together == "exponentials":
            kind = f"Exponentials<{first.ctype}>"
            return [PartText(first.part, kind, f"{kind}::none()", f"{kind}{{{sums}}}", 2 * size)]
        if self.together == "squares":
            kind = f"Spread<{first.ctype}>"
            mine = f"spread_around({self.pivot}, {self.counted}, {sums})"
            return [PartText(first.part, kind, f"{kind}::none()", mine, 3 * size)]
        kinds = [(r, f"Reduced<{r.ctype}, {r.op}>") for r in self.reductions]
        return [
            PartText(r.part, kind, f"{kind}{{{r.identity}}}", f"{kind}{{{r.sum}}}", _WORDS.get(r.ctype, 2))
            for r, kind in kinds
        ]

    def with_function(self, terms: Sequence[TermText]) -> list[TermText]:
        """Return what is computed after the walk, with its function for the exponentials that the walk summed."""
        if self.together != "exponentials":
            return list(terms)
        largest = self.reductions[0]
        distances = {t.name for t in terms if t.code == f"{largest.operand} - {largest.name}"}
        return [
            replace(t, code=f"{self.function}({found[2]})")
            if (found := _EXPONENTIAL.fullmatch(t.code)) and found[2] in distances
            else t
            for t in terms
        ]


def words_of(folds: Sequence[Fold]) -> tuple[dict[str, int], int]:
    """Return where each part begins among the words that a block tells its team on a turn, and how many these are."""
    first, count = {}, 0
    for fold in folds:
        for part in fold.parts:
            first[part.name] = count
            count += part.words
    return first, count


def folds_of(passes: Sequence[PassText], walks: Sequence[Sequence[TensorText]]) -> Iterator[Fold]:
    """Yield the walks that these passes take, `walks` being the tensors that each reads."""
    left, number = list(zip(passes, walks, strict=False)), 0
    while left:
        (one, tensors), *left = left
        both = _together(one, left[0][0], tensors) if left else None
        left = left[1:] if both else left
        yield replace(both or Fold(tensors, one.terms, one.reductions, one.stores, one.after), number=number)
        number += 1


def _together(one: PassText, following: PassText, tensors: Sequence[TensorText]) -> Fold | None:
    """Return the walk that makes the reductions of two passes, one each; None if these are not of the known pairs."""
    if len(one.reductions) != 1 or len(following.reductions) != 1 or one.stores or following.stores:
        return None
    (first,), (second,) = one.reductions, following.reductions
    known = {t.name for t in one.terms}
    code = {t.name: t.code for t in following.terms if t.name not in known}
    found = _exponentials(first, second, code) if not one.after else _squares(first, second, code, one.after)
    if found is None or first.ctype != second.ctype:
        return None
    kind: Together = "exponentials" if found else "squares"
    return Fold(tensors, one.terms, (first, second), (), following.after, one.after, kind, found)


def _exponentials(largest: ReductionText, total: ReductionText, code: dict[str, str]) -> str | None:
    """Return the function if its values are summed, of the distance from the largest element."""
    found = _EXPONENTIAL.fullmatch(code.pop(total.operand, ""))
    distance = f"{largest.operand} - {largest.name}"
    right = [largest.kind, total.kind] == ["max", "sum"] and found and code == {found[2]: distance}
    return _NOT_ABOVE_ZERO.get(found[1], found[1]) if found and right else None


def _squares(
    total: ReductionText, squares: ReductionText, code: dict[str, str], after: Sequence[TermText]
) -> str | None:
    """Return "" if what is summed is the square of the distance from the mean."""
    found = re.fullmatch(r"(\w+) \* (\w+)", code.pop(squares.operand, ""))
    mean = after[0]
    distance = {found[1]: f"{total.operand} - {mean.name}"} if found and found[1] == found[2] else None
    sums = [total.kind, squares.kind] == ["sum", "sum"] and len(after) == 1
    return "" if sums and code == distance and re.fullmatch(rf"{total.name} / \w+", mean.code) else None
