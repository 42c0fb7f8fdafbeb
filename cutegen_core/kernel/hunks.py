"""A change taken apart: the hunks of a difference of two texts, and the text with only some of them applied.

A hunk is a run of changed lines; runs that fewer than `JOIN_LINES` equal lines keep apart are one hunk, since a person
reads and judges them together. Applying all hunks gives the new text, applying none the old one, exactly.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

JOIN_LINES = 2


@dataclass(frozen=True)
class Hunk:
    """One piece of a change.

    Attributes:
        number: from 1, in the order of the text.
        old_start, new_start: 1-based line before which (insertion) or at which it begins, in either text.
        old, new: the lines with their line ends; equal lines inside a joined hunk are in both.
    """

    number: int
    old_start: int
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def added(self) -> int:
        return len(self.new) - self._equal

    @property
    def removed(self) -> int:
        return len(self.old) - self._equal

    @property
    def title(self) -> str:
        """ "line 38, +6 -1"."""
        return f"line {self.new_start}, +{self.added} -{self.removed}"

    @property
    def _equal(self) -> int:
        matcher = difflib.SequenceMatcher(None, self.old, self.new, autojunk=False)
        return sum(block.size for block in matcher.get_matching_blocks())


def split(old: str, new: str) -> tuple[Hunk, ...]:
    """The hunks that lead from `old` to `new`; none where they are equal."""
    a, b = _lines(old), _lines(new)
    found = enumerate(_spans(a, b), 1)
    return tuple(Hunk(n, i1 + 1, j1 + 1, tuple(a[i1:i2]), tuple(b[j1:j2])) for n, (i1, i2, j1, j2) in found)


def apply(old: str, hunks: Collection[Hunk], kept: Collection[int]) -> str:
    """`old` with the hunks whose numbers are in `kept`.

    Args:
        hunks: all of `split(old, ...)`.

    Raises:
        ValueError: a number in `kept` is no hunk's, or a hunk is not of this text.
    """
    unknown = set(kept) - {hunk.number for hunk in hunks}
    if unknown:
        raise ValueError(f"there is no hunk {sorted(unknown)[0]}; there are {len(hunks)}")
    lines = _lines(old)
    for hunk in sorted(hunks, key=lambda h: h.old_start, reverse=True):
        begin = hunk.old_start - 1
        if tuple(lines[begin : begin + len(hunk.old)]) != hunk.old:
            raise ValueError(f"hunk {hunk.number} is not of this text")
        if hunk.number in kept:
            lines[begin : begin + len(hunk.old)] = hunk.new
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only line feeds end a line: others may stand inside a string or a comment."""
    pieces = text.split("\n")
    whole = [piece + "\n" for piece in pieces[:-1]]
    return [*whole, pieces[-1]] if pieces[-1] else whole


def _spans(a: list[str], b: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of lines that differ, joined where little lies between them."""
    pending: tuple[int, int, int, int] | None = None
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if pending and i1 - pending[1] < JOIN_LINES:
            pending = (pending[0], i2, pending[2], j2)
            continue
        if pending:
            yield pending
        pending = (i1, i2, j1, j2)
    if pending:
        yield pending
