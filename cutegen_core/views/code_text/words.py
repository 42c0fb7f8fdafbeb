"""Find the words in which two lines differ, and the removed line that belongs to an added one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
ALIKE = 0.5
"""Lines less alike than this are two lines, not one that was changed."""
MOST_PAIRS = 900
"""Larger changes are paired in order: comparing every line with every other would take too long to be drawn."""

_LONGEST = 1000
"""Words of a line, and letters of two lines that may be alike: longer lines are no code, and comparing them is slow."""

Range = tuple[int, int]


class Changed(NamedTuple):
    """The character ranges in which two lines differ; empty where the lines are too unlike to help."""

    old: tuple[Range, ...]
    new: tuple[Range, ...]


UNLIKE = Changed((), ())


@lru_cache(maxsize=4096)
def changed(old: str, new: str) -> Changed:
    """Return the words that differ."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    if max(len(a), len(b)) > _LONGEST:
        return UNLIKE
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < ALIKE:
        return UNLIKE
    different = [op for op in matcher.get_opcodes() if op[0] != "equal"]
    return Changed(
        _ranges(a, [(i1, i2) for _, i1, i2, _, _ in different]), _ranges(b, [(j1, j2) for *_, j1, j2 in different])
    )


def aligned(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Return the rows of a side-by-side picture: similar lines opposite each other, the others in their order."""
    rows: list[tuple[int | None, int | None]] = []
    i = j = 0
    for one, other in [*_anchors(removed, added), (len(removed), len(added))]:
        for k in range(max(one - i, other - j)):
            rows.append((i + k if i + k < one else None, j + k if j + k < other else None))
        if one < len(removed):
            rows.append((one, other))
        i, j = one + 1, other + 1
    return rows


def _anchors(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of similar lines, in the order of both sides."""
    if len(removed) * len(added) > MOST_PAIRS:
        return []
    found, begin = [], 0
    for i, line in enumerate(removed):
        likeness = [(_alike(line, added[j]), -j) for j in range(begin, len(added))]
        best, negative = max(likeness, default=(0.0, 0))
        if best >= ALIKE:
            found.append((i, -negative))
            begin = 1 - negative
    return found


def _alike(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(None, one.strip()[:_LONGEST], other.strip()[:_LONGEST], autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0.0


def _ranges(words: Sequence[str], spans: Sequence[Range]) -> tuple[Range, ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[i1], starts[i2]) for i1, i2 in spans if starts[i1] < starts[i2])
