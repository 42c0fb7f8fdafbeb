"""Diff two sources as rows: which lines stand opposite which, and what is folded away."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

from cutegen_core.kernel.opcodes import find_opcodes
from cutegen_core.views.code_text import words

CONTEXT_LINES = 3


class Row(NamedTuple):
    """A row of a diff; `left` and `right` are line indices, None if a side has none. A gap stands for `hidden` lines.

    A "changed" row with both sides is one line that was changed; `words` says where.
    """

    kind: Literal["same", "changed", "gap"]
    left: int | None
    right: int | None
    hidden: int = 0
    words: words.Changed = words.UNLIKE


class Summary(NamedTuple):
    added: int
    removed: int


@lru_cache(maxsize=32)
def rows(left: str, right: str, *, keep: tuple[int, ...] = (), context: int = CONTEXT_LINES) -> tuple[Row, ...]:
    """Return rows with `context` unchanged lines around each change and each line of the new source in `keep`."""
    a, b = plain_lines(left), plain_lines(right)
    near = {number - 1 + offset for number in keep for offset in range(-context, context + 1)}
    found: list[Row] = []
    for tag, i1, i2, j1, j2 in find_opcodes(a, b):
        if tag == "equal":
            shown = (
                near
                | set(range(j1, j1 + context) if i1 or j1 else ())
                | set(range(j2 - context, j2) if i2 < len(a) or j2 < len(b) else ())
            )
            found += _equal(i1, j1, i2 - i1, shown)
        else:
            found += _changed(a, b, (i1, i2), (j1, j2))
    return tuple(found)


def summary(left: str, right: str) -> Summary:
    """Return how many lines were added and removed; a changed line counts as both."""
    changed = [row for row in rows(left, right) if row.kind == "changed"]
    return Summary(sum(row.right is not None for row in changed), sum(row.left is not None for row in changed))


def plain_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def _changed(a: list[str], b: list[str], left: tuple[int, int], right: tuple[int, int]) -> list[Row]:
    removed, added = a[slice(*left)], b[slice(*right)]
    found = []
    for i, j in words.aligned(removed, added):
        changed = words.changed(removed[i], added[j]) if i is not None and j is not None else words.UNLIKE
        found.append(
            Row("changed", None if i is None else left[0] + i, None if j is None else right[0] + j, 0, changed)
        )
    return found


def _equal(i1: int, j1: int, count: int, shown: set[int]) -> list[Row]:
    """Return unchanged lines, with runs of more than one that need not be shown folded into gaps."""
    found: list[Row] = []
    for visible, group in groupby(range(count), key=lambda k: j1 + k in shown):
        offsets = list(group)
        if visible or len(offsets) == 1:
            found += [Row("same", i1 + k, j1 + k) for k in offsets]
        else:
            found.append(Row("gap", None, None, len(offsets)))
    return found
