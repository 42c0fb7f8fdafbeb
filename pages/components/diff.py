"""The difference of two sources as rows, and its two pictures: one column or side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

from pages.components import highlight
from pages.components.texts import escaped

CONTEXT_LINES = 3

Messages = Mapping[int, tuple[str, ...]]
"""What is said about a line of the new source, by its 1-based number."""


class Row(NamedTuple):
    """One row; `left` and `right` are line indices, None where a side has no such line. A gap hides `count` lines."""

    kind: Literal["same", "changed", "gap"]
    left: int | None
    right: int | None
    count: int = 0


class Summary(NamedTuple):
    added: int
    removed: int


@lru_cache(maxsize=32)
def rows(left: str, right: str, *, keep: tuple[int, ...] = (), context: int = CONTEXT_LINES) -> tuple[Row, ...]:
    """Rows with `context` equal lines around each change and around each line of the new source in `keep`."""
    a, b = _plain(left), _plain(right)
    near = {number - 1 + offset for number in keep for offset in range(-context, context + 1)}
    found: list[Row] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            shown = (
                near
                | set(range(j1, j1 + context) if i1 or j1 else ())
                | set(range(j2 - context, j2) if i2 < len(a) or j2 < len(b) else ())
            )
            found += _equal(i1, j1, i2 - i1, shown)
        else:
            found += [Row("changed", i, None) for i in range(i1, i2)]
            found += [Row("changed", None, j) for j in range(j1, j2)]
    return tuple(found)


def summary(left: str, right: str) -> Summary:
    """How many lines were added and removed."""
    changed = [row for row in rows(left, right) if row.kind == "changed"]
    removed = sum(row.right is None for row in changed)
    return Summary(len(changed) - removed, removed)


def plain(source: str, messages: Messages) -> str:
    """HTML of one source with line numbers and the messages under their lines."""
    html = []
    for number, code in enumerate(highlight.lines(source), 1):
        said = messages.get(number, ())
        kind, mark = ("cg-bad", "✗") if said else ("same", "")
        html.append(f'<tr class="{kind}">{_number(number)}<td class="cg-sign">{mark}</td><td>{code}</td></tr>')
        html += [_says(text, 2) for text in said]
    return f'<table class="cg-code">{"".join(html)}</table>'


def inline(left: str, right: str, messages: Messages) -> str:
    """HTML of the unified picture."""
    a, b = highlight.lines(left), highlight.lines(right)
    html = []
    for row in rows(left, right, keep=tuple(messages)):
        if row.kind == "gap":
            html.append(_gap(row))
        elif row.right is None and row.left is not None:
            html.append(_line("del", row.left + 1, None, "−", a[row.left]))
        elif row.right is not None:
            number = row.right + 1
            kind, sign = ("add", "+") if row.left is None else ("same", "✗" if number in messages else "")
            html.append(_line(kind, None if row.left is None else row.left + 1, number, sign, b[row.right]))
            html += [_says(text, 3) for text in messages.get(number, ())]
    return f'<table class="cg-code">{"".join(html)}</table>'


def side_by_side(left: str, right: str, messages: Messages) -> str:
    """HTML of the two-column picture; removed and added lines of one change stand opposite each other."""
    a, b = highlight.lines(left), highlight.lines(right)
    html = []
    for one, other in _paired(rows(left, right, keep=tuple(messages))):
        if one is not None and one.kind == "gap":
            html.append(_gap(one))
            continue
        changed = one is None or other is None or one.kind == "changed"
        left_cell = _half(one.left if one else None, a, "del" if changed else "")
        right_cell = _half(other.right if other else None, b, "add" if changed else "")
        html.append(f"<tr>{left_cell}{right_cell}</tr>")
        said = messages.get(other.right + 1, ()) if other and other.right is not None else ()
        html += [_says(text, 3) for text in said]
    columns = '<colgroup><col class="cg-ln-col"><col><col class="cg-ln-col"><col></colgroup>'
    return f'<table class="cg-code cg-split">{columns}{"".join(html)}</table>'


def _plain(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def _equal(i1: int, j1: int, count: int, shown: set[int]) -> list[Row]:
    """Equal lines, runs of more than one that need not be shown folded into gaps."""
    found: list[Row] = []
    for visible, group in groupby(range(count), key=lambda k: j1 + k in shown):
        offsets = list(group)
        if visible or len(offsets) == 1:
            found += [Row("same", i1 + k, j1 + k) for k in offsets]
        else:
            found.append(Row("gap", None, None, len(offsets)))
    return found


def _paired(found: tuple[Row, ...]) -> Iterator[tuple[Row | None, Row | None]]:
    removed: list[Row] = []
    added: list[Row] = []

    def flush() -> Iterator[tuple[Row | None, Row | None]]:
        for i in range(max(len(removed), len(added))):
            yield (removed[i] if i < len(removed) else None, added[i] if i < len(added) else None)
        removed.clear()
        added.clear()

    for row in found:
        if row.kind == "changed":
            (removed if row.right is None else added).append(row)
            continue
        yield from flush()
        yield row, row
    yield from flush()


def _line(kind: str, left: int | None, right: int | None, sign: str, code: str) -> str:
    numbers = _number(left) + _number(right)
    return f'<tr class="cg-{kind}">{numbers}<td class="cg-sign">{sign}</td><td>{code}</td></tr>'


def _half(index: int | None, code: tuple[str, ...], kind: str) -> str:
    if index is None:
        return '<td class="cg-ln cg-void"></td><td class="cg-void"></td>'
    sign = {"del": "−", "add": "+", "": " "}[kind]
    text = f'<td class="cg-{kind}"><span class="cg-sign">{sign} </span>{code[index]}</td>'
    return f'<td class="cg-ln cg-{kind}">{index + 1}</td>{text}'


def _number(number: int | None) -> str:
    return f'<td class="cg-ln">{number or ""}</td>'


def _says(text: str, before: int) -> str:
    return f'<tr class="cg-says"><td colspan="{before}"></td><td>{escaped(text)}</td></tr>'


def _gap(row: Row) -> str:
    return f'<tr class="cg-gap"><td colspan="4">⋯ {row.count} equal lines</td></tr>'
