"""Split the difference between two texts into hunks, and apply a selection of them.

A hunk is a run of changed lines. Runs separated by fewer than `JOIN_LINES` unchanged lines form one hunk, because a
person reads and judges them together. Applying all hunks gives exactly the new text; applying none, the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cutegen_core.kernel.opcodes import find_opcodes

JOIN_LINES = 2


@dataclass(frozen=True)
class Hunk:
    """One piece of a change.

    Attributes:
        number: from 1, in the order of the text.
        old_start, new_start: 1-based line at which it begins in the old and the new text; lines are inserted before it.
        old, new: the lines with their line ends; unchanged lines inside a joined hunk are in both.
    """

    number: int
    old_start: int
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def added(self) -> int:
        return len(self.new) - self._unchanged

    @property
    def removed(self) -> int:
        return len(self.old) - self._unchanged

    @property
    def title(self) -> str:
        """Place and size: "line 38, +6 -1"."""
        return f"line {self.new_start}, +{self.added} -{self.removed}"

    @property
    def _unchanged(self) -> int:
        return sum(i2 - i1 for tag, i1, i2, _, _ in find_opcodes(self.old, self.new) if tag == "equal")


def split(old: str, new: str) -> tuple[Hunk, ...]:
    """Return the hunks that turn `old` into `new`; none if they are equal."""
    a, b = _split_lines(old), _split_lines(new)
    found = enumerate(_find_changed_spans(a, b), 1)
    return tuple(Hunk(n, i1 + 1, j1 + 1, tuple(a[i1:i2]), tuple(b[j1:j2])) for n, (i1, i2, j1, j2) in found)


def apply(old: str, hunks: Collection[Hunk], kept: Collection[int]) -> str:
    """Return `old` with the hunks applied whose numbers are in `kept`.

    Args:
        hunks: all of `split(old, ...)`.

    Raises:
        ValueError: `kept` holds a number that no hunk has, or a hunk does not fit `old`.
    """
    unknown = set(kept) - {hunk.number for hunk in hunks}
    if unknown:
        raise ValueError(f"there is no hunk {sorted(unknown)[0]}; there are {len(hunks)}")
    lines = _split_lines(old)
    for hunk in sorted(hunks, key=lambda h: h.old_start, reverse=True):
        begin = hunk.old_start - 1
        if tuple(lines[begin : begin + len(hunk.old)]) != hunk.old:
            raise ValueError(f"hunk {hunk.number} is not of this text")
        if hunk.number in kept:
            lines[begin : begin + len(hunk.old)] = hunk.new
    return "".join(lines)


def _split_lines(text: str) -> list[str]:
    """Split into lines with their ends. Only a line feed ends a line: a string or comment may hold other breaks."""
    pieces = text.split("\n")
    whole = [piece + "\n" for piece in pieces[:-1]]
    return [*whole, pieces[-1]] if pieces[-1] else whole


def _find_changed_spans(a: list[str], b: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges of lines that differ, joined if fewer than JOIN_LINES lines separate them."""
    pending: tuple[int, int, int, int] | None = None
    for tag, i1, i2, j1, j2 in find_opcodes(a, b):
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
