"""Diff two sources as rows: which lines stand opposite which, and what is folded away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

from cutegen_core.kernel import hunks
from cutegen_core.kernel.opcodes import find_opcodes
from cutegen_core.kernel.plan_words import plan_lines
from cutegen_core.views.code_text import words

CONTEXT_LINES = 3


class Row(NamedTuple):
    """A row of a diff; `left` and `right` are line indices, None if a side has none. A gap stands for `hidden` lines.

    A "changed" row with both sides is one line that was changed; `words` says where. `hunk` is the number of the hunk
    that begins in this row, else 0.
    """

    kind: Literal["same", "changed", "gap"]
    left: int | None
    right: int | None
    hidden: int = 0
    words: words.Changed = words.UNLIKE
    hunk: int = 0


class Part(NamedTuple):
    """Rows that are shown or folded together; the launch plan is a part of its own, and is folded as a whole."""

    kind: Literal["shown", "folded", "plan"]
    rows: tuple[Row, ...]


class Summary(NamedTuple):
    added: int
    removed: int


@lru_cache(maxsize=32)
def aligned(left: str, right: str) -> tuple[Row, ...]:
    """Return every line of both sources, with nothing folded away."""
    a, b = plain_lines(left), plain_lines(right)
    starts = [(hunk.old_start - 1, hunk.new_start - 1, hunk.number) for hunk in hunks.split(left, right)]
    of_left, of_right = {i: n for i, _, n in starts}, {j: n for _, j, n in starts}
    found: list[Row] = []
    for tag, i1, i2, j1, j2 in find_opcodes(a, b):
        if tag == "equal":
            found += [Row("same", i1 + k, j1 + k) for k in range(i2 - i1)]
        else:
            number = (of_right.get(j1) if j2 > j1 else None) or of_left.get(i1) or of_right.get(j1) or 0
            first, *more = _changed(a, b, (i1, i2), (j1, j2))
            found += [first._replace(hunk=number), *more]
    return tuple(found)


@lru_cache(maxsize=32)
def rows(left: str, right: str, *, keep: tuple[int, ...] = (), context: int = CONTEXT_LINES) -> tuple[Row, ...]:
    """Return rows with `context` unchanged lines around each change and each line of the new source in `keep`."""
    found: list[Row] = []
    for visible, group in _by_visibility(aligned(left, right), keep, context):
        found += group if visible else [Row("gap", None, None, len(group))]
    return tuple(found)


@lru_cache(maxsize=32)
def parts(left: str, right: str, *, keep: tuple[int, ...] = (), context: int = CONTEXT_LINES) -> tuple[Part, ...]:
    """Return all rows in parts: the launch plan, then what is shown of the code and what is folded."""
    every = aligned(left, right)
    old, new = plan_lines(left), plan_lines(right)
    in_plan = next((n for n, row in enumerate(every) if not _within(row, old, new)), len(every))
    found = [Part("plan", every[:in_plan])] if in_plan else []
    for visible, group in _by_visibility(every[in_plan:], keep, context):
        found.append(Part("shown" if visible else "folded", tuple(group)))
    return tuple(found)


def summary(left: str, right: str) -> Summary:
    """Return how many lines were added and removed; a changed line counts as both."""
    changed = [row for row in aligned(left, right) if row.kind == "changed"]
    return Summary(sum(row.right is not None for row in changed), sum(row.left is not None for row in changed))


def plain_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def _within(row: Row, old: int, new: int) -> bool:
    return row.right < new if row.right is not None else row.left is not None and row.left < old


def _changed(a: list[str], b: list[str], left: tuple[int, int], right: tuple[int, int]) -> list[Row]:
    removed, added = a[slice(*left)], b[slice(*right)]
    found = []
    for i, j in words.aligned(removed, added):
        changed = words.changed(removed[i], added[j]) if i is not None and j is not None else words.UNLIKE
        found.append(
            Row("changed", None if i is None else left[0] + i, None if j is None else right[0] + j, 0, changed)
        )
    return found


def _by_visibility(found: Sequence[Row], keep: Sequence[int], context: int) -> Iterator[tuple[bool, list[Row]]]:
    """Group rows by whether they are near a change or a kept line; a single line is never hidden."""
    lines = {number - 1 + offset for number in keep for offset in range(-context, context + 1)}
    near = {n + offset for n, row in enumerate(found) if row.kind == "changed"
            for offset in range(-context, context + 1)}  # fmt: skip
    shown = [n in near or row.right in lines for n, row in enumerate(found)]
    for n in range(len(shown)):
        if not shown[n] and (n == 0 or shown[n - 1]) and (n + 1 == len(shown) or shown[n + 1]):
            shown[n] = True
    for visible, group in groupby(range(len(found)), key=shown.__getitem__):
        yield visible, [found[n] for n in group]
