"""Compare two lists of lines in time nearly linear in their length.

difflib is exact but needs the product of both lengths, and more where lines repeat. So it compares short texts as a
whole, and of long ones only what lies between lines that occur once in each (patience diff). What is still long there
counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_WHOLE, _PAIRS = 1 << 20, 1 << 15
"""Up to this product of lengths, and this number of pairs of equal lines, texts are compared as a whole."""
_BETWEEN = 1 << 14

Opcode = tuple[str, int, int, int, int]
"""Of difflib: "equal", "replace", "delete" or "insert", and the range in the old and in the new text."""


def find_opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """Return what turns `a` into `b`, in order, as `SequenceMatcher.get_opcodes` does."""
    if _cost(a, b) <= _WHOLE and _equal_pairs(a, b) <= _PAIRS:
        return list(SequenceMatcher(None, a, b, autojunk=False).get_opcodes())
    found: list[Opcode] = []
    i = j = 0
    for one, other in [*_anchors(a, b), (len(a), len(b))]:
        for opcode in _between(a, b, (i, one), (j, other)):
            _append(found, opcode)
        if one < len(a):
            _append(found, ("equal", one, one + 1, other, other + 1))
        i, j = one + 1, other + 1
    return found


def _cost(a: Sequence[str], b: Sequence[str]) -> int:
    return len(a) * len(b)


def _equal_pairs(a: Sequence[str], b: Sequence[str]) -> int:
    in_b = Counter(b)
    return sum(in_b[line] for line in a)


def _between(a: Sequence[str], b: Sequence[str], left: tuple[int, int], right: tuple[int, int]) -> Iterator[Opcode]:
    (i1, i2), (j1, j2) = left, right
    while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
        yield "equal", i1, i1 + 1, j1, j1 + 1
        i1, j1 = i1 + 1, j1 + 1
    same = 0
    while i1 < i2 - same and j1 < j2 - same and a[i2 - same - 1] == b[j2 - same - 1]:
        same += 1
    old, new = a[i1 : i2 - same], b[j1 : j2 - same]
    if _cost(old, new) <= _BETWEEN:
        inside = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        yield from ((tag, i1 + w, i1 + x, j1 + y, j1 + z) for tag, w, x, y, z in inside)
    else:
        yield "replace", i1, i2 - same, j1, j2 - same
    if same:
        yield "equal", i2 - same, i2, j2 - same, j2


def _append(found: list[Opcode], opcode: Opcode) -> None:
    """Add an opcode; one of the same kind before it grows instead."""
    if found and found[-1][0] == opcode[0]:
        tag, i1, _, j1, _ = found.pop()
        opcode = (tag, i1, opcode[2], j1, opcode[4])
    found.append(opcode)


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of equal lines that occur once in each text, in the order of both: the longest such sequence."""
    in_a, in_b = Counter(a), Counter(b)
    places = {line: j for j, line in enumerate(b) if in_b[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(a) if in_a[line] == 1 and line in places]
    tails: list[int] = []  # the least new line in which a sequence of each length can end
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [number]
    chain = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
