"""Say what a team computes on each walk over its row: the passes of its reductions, of which two may be one.

The largest element, and then the sum of what is exponential in the distance from it, take one walk: a sum so far is
relative to the largest element so far, and is rescaled when a larger one comes. So a softmax waits once for its team.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.statements import PassText, ReductionText, StoreText, TermText


@dataclass(frozen=True)
class Fold:
    """One walk over the row.

    Attributes:
        tensors: what it reads.
        exponential: the function whose values are summed, relative to the largest element; "" for other reductions.
    """

    tensors: Sequence[TensorText]
    terms: tuple[TermText, ...]
    reductions: tuple[ReductionText, ...]
    stores: tuple[StoreText, ...]
    after: tuple[TermText, ...]
    exponential: str = ""


def folds_of(passes: Sequence[PassText], walks: Sequence[Sequence[TensorText]]) -> Iterator[Fold]:
    """Yield the walks that these passes take, `walks` being the tensors that each reads."""
    left = list(zip(passes, walks, strict=False))
    while left:
        (one, tensors), *left = left
        exponential = _exponential(one, left[0][0]) if left else ""
        if exponential:
            (following, _), *left = left
            both = (*one.reductions, *following.reductions)
            yield Fold(tensors, one.terms, both, (), following.after, exponential)
        else:
            yield Fold(tensors, one.terms, one.reductions, one.stores, one.after)


def _exponential(one: PassText, following: PassText) -> str:
    """Return the function if the passes find the largest element, and sum this of the distance from it; else ""."""
    kinds = [r.kind for r in (*one.reductions, *following.reductions)]
    if kinds != ["max", "sum"] or one.stores or one.after or following.stores:
        return ""
    (largest,), (total,) = one.reductions, following.reductions
    known = {t.name for t in one.terms}
    code = {t.name: t.code for t in following.terms if t.name not in known}
    found = re.fullmatch(r"(\w*exp\w*)\((\w+)\)", code.pop(total.operand, ""))
    distance = f"{largest.operand} - {largest.name}"
    return found[1] if found and code == {found[2]: distance} and largest.ctype == total.ctype else ""
