"""Write sources as HTML tables, with messages and profile at their lines: one, two inline or side by side, one hunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from cutegen_core.kernel.hunks import Hunk
from cutegen_core.kernel.plan_words import plan_lines, say_plan, say_plan_change
from cutegen_core.records.wording import counted
from cutegen_core.views.code_text import diff, highlight
from cutegen_core.views.code_text.highlight import Language
from pages.components.shared.texts import escape_html, tooltip

Messages = Mapping[int, tuple[str, ...]]
"""Messages about the lines of the new source, by 1-based line number."""


class Heat(NamedTuple):
    """The profiler's samples at one line: their share of all, and an explanation."""

    share: float
    words: str


_NOTHING: Mapping[int, Any] = MappingProxyType({})


class Notes(NamedTuple):
    """Messages and profile of the lines of the new source. The gutter for heat appears only where there is any."""

    says: Messages = _NOTHING
    heat: Mapping[int, Heat] = _NOTHING

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines that must not be folded away."""
        return (*self.says, *self.heat)


def plain(source: str, notes: Notes, language: Language = "cuda") -> str:
    """Write one source with line numbers, the messages under their lines, and the launch plan folded to one line."""
    html: list[str] = []
    end = plan_lines(source) if language == "cuda" else 0
    for number, code in enumerate(highlight.lines(source, language), 1):
        said = notes.says.get(number, ())
        kind, mark = ("cg-bad", "✗") if said else ("same", "")
        cells = f'{_own(number)}{_heat(notes, number)}<td class="cg-sign">{mark}</td><td>{code}</td>'
        html.append(f'<tr class="{kind}">{cells}</tr>')
        html += [_says(text, 2 + bool(notes.heat)) for text in said]
        if number == end:
            words = f"launch plan, {counted(end, 'line')}: {say_plan(source)}"
            html = [_folded(words, html, 3 + bool(notes.heat), is_open=_says_within(notes, end))]
    return _table(html)


def inline(left: str, right: str, notes: Notes) -> str:
    """Write the difference in one column; every run of unchanged lines, and the launch plan, can be unfolded."""
    html = []
    for part in diff.parts(left, right, keep=notes.lines):
        html.append(_part(part, left, right, notes, _unified(part.rows, left, right, notes), 4 + bool(notes.heat)))
    return _table(html)


def side_by_side(left: str, right: str, notes: Notes) -> str:
    """Write the difference in two columns, with corresponding lines opposite each other."""
    html = []
    for part in diff.parts(left, right, keep=notes.lines):
        rows = _opposite(part.rows, left, right, notes)
        html.append(_part(part, left, right, notes, rows, 4 + bool(notes.heat)))
    heat = '<col class="cg-heat-col">' if notes.heat else ""
    columns = f'<colgroup><col class="cg-ln-col"><col><col class="cg-ln-col">{heat}<col></colgroup>'
    return (
        f'<table class="cg-code cg-split" tabindex="0" aria-label="both sources">{columns}'
        f"<tbody>{''.join(html)}</tbody></table>"
    )


def hunk(piece: Hunk, left: str, right: str) -> str:
    """Write one hunk of the one-column difference, without the lines around it."""
    begin, end = piece.old_start - 1, piece.old_start - 1 + len(piece.old)
    first, last = piece.new_start - 1, piece.new_start - 1 + len(piece.new)
    rows = [
        row for row in diff.aligned(left, right)
        if (row.left is not None and begin <= row.left < end) or (row.right is not None and first <= row.right < last)
    ]  # fmt: skip
    return _table(_unified(rows, left, right, Notes()))


def _table(html: Iterable[str]) -> str:
    return f'<table class="cg-code" tabindex="0" aria-label="source"><tbody>{"".join(html)}</tbody></table>'


def _part(part: diff.Part, left: str, right: str, notes: Notes, rows: Sequence[str], columns: int) -> str:
    """Write a part of a difference; the launch plan opens itself where a message is in it, or nothing else changed."""
    if part.kind == "shown":
        return "".join(rows)
    if part.kind == "folded":
        return _folded(counted(len(part.rows), "unchanged line"), rows, columns)
    below = diff.aligned(left, right)[len(part.rows) :]
    is_open = _says_within(notes, plan_lines(right)) or (_is_changed(part.rows) and not _is_changed(below))
    return _folded(_of_plan(part, left, right), rows, columns, is_open=is_open)


def _of_plan(part: diff.Part, left: str, right: str) -> str:
    """Say in a line what the launch plan is, or what changed in it and in how many hunks."""
    numbers = [row.hunk for row in part.rows if row.hunk]
    if not numbers:
        return f"launch plan, unchanged: {say_plan(right)}"
    which = f"hunk {numbers[0]}" if len(numbers) == 1 else f"hunks {numbers[0]} to {numbers[-1]}"
    return f"launch plan ({which}): {say_plan_change(left, right) or 'same launches, another idea or comment'}"


def _is_changed(rows: Iterable[diff.Row]) -> bool:
    return any(row.kind == "changed" for row in rows)


def _says_within(notes: Notes, end: int) -> bool:
    return any(line <= end for line in notes.says)


def _folded(words: str, rows: Iterable[str], columns: int, *, is_open: bool = False) -> str:
    """Write rows below a line that shows and hides them; a checkbox does it, without a script."""
    box = f'<input type="checkbox"{" checked" if is_open else ""}>'
    line = f'<label class="cg-unfold">{box}<span>⋯ {escape_html(words)}</span></label>'
    head = f'<tbody class="cg-fold"><tr class="cg-gap"><td colspan="{columns}">{line}</td></tr></tbody>'
    return f'</tbody>{head}<tbody class="cg-fold-body">{"".join(rows)}</tbody><tbody>'


def _unified(rows: Iterable[diff.Row], left: str, right: str, notes: Notes) -> list[str]:
    a, b = highlight.pieces(left), highlight.pieces(right)
    html: list[str] = []
    for kind, group in groupby(rows, key=lambda row: row.kind):
        run = list(group)
        lines: list[str] = []
        if kind == "changed":
            lines += [_removed(row, row.left, a, notes) for row in run if row.left is not None]
        for row in run:
            if row.right is not None:
                lines += _new(row, row.right, b, notes)
        html += _numbered(lines, run)
    return html


def _opposite(rows: Iterable[diff.Row], left: str, right: str, notes: Notes) -> list[str]:
    a, b = highlight.pieces(left), highlight.pieces(right)
    html: list[str] = []
    for row in rows:
        changed = row.kind == "changed"
        one = _half(row.left, a, "del" if changed else "", row.words.old)
        other = _half(row.right, b, "add" if changed else "", row.words.new, notes)
        html += _numbered([f"<tr>{one}{other}</tr>"], [row])
        html += [_says(text, 3 + bool(notes.heat)) for text in _said(notes, row.right)]
    return html


def _numbered(lines: Sequence[str], run: Sequence[diff.Row]) -> list[str]:
    """Mark the first line of a run in which a hunk begins with the hunk's number."""
    number = next((row.hunk for row in run if row.hunk), 0)
    if not number or not lines:
        return list(lines)
    return [lines[0].replace("<tr", f'<tr data-hunk="{number}"', 1), *lines[1:]]


def _removed(row: diff.Row, index: int, code: Sequence[tuple[highlight.Piece, ...]], notes: Notes) -> str:
    text = highlight.marked(code[index], row.words.old)
    numbers = _number(index + 1) + _number(None) + _heat(notes, 0)
    return f'<tr class="cg-del">{numbers}<td class="cg-sign">−</td><td>{text}</td></tr>'


def _new(row: diff.Row, index: int, code: Sequence[tuple[highlight.Piece, ...]], notes: Notes) -> list[str]:
    number, changed = index + 1, row.kind == "changed"
    sign = "+" if changed else "✗" if number in notes.says else ""
    old = _number(None if changed or row.left is None else row.left + 1)
    text = highlight.marked(code[index], row.words.new)
    cells = f'{old}{_own(number)}{_heat(notes, number)}<td class="cg-sign">{sign}</td><td>{text}</td>'
    line = f'<tr class="{"cg-add" if changed else "cg-same"}">{cells}</tr>'
    return [line, *(_says(said, 3 + bool(notes.heat)) for said in _said(notes, index))]


def _said(notes: Notes, index: int | None) -> tuple[str, ...]:
    return notes.says.get(index + 1, ()) if index is not None else ()


def _half(
    index: int | None, code: Sequence[tuple[highlight.Piece, ...]], kind: str, ranges: Sequence[tuple[int, int]],
    notes: Notes | None = None,
) -> str:  # fmt: skip
    """Write one side of a row; only the new side has `notes`."""
    if index is None:
        gutter = '<td class="cg-void"></td>' if notes and notes.heat else ""
        return f'<td class="cg-ln cg-void"></td>{gutter}<td class="cg-void"></td>'
    sign = {"del": "−", "add": "+", "": " "}[kind]
    text = highlight.marked(code[index], ranges)
    name = "" if notes is None else f' id="L{index + 1}"'
    gutter = "" if notes is None else _heat(notes, index + 1)
    cell = f'<td class="cg-{kind}"><span class="cg-sign">{sign} </span>{text}</td>'
    return f'<td class="cg-ln cg-{kind}"{name}>{index + 1}</td>{gutter}{cell}'


def _number(number: int | None) -> str:
    return f'<td class="cg-ln">{number or ""}</td>'


def _own(number: int) -> str:
    """Write the line number of the shown source, which is the target of links."""
    return f'<td class="cg-ln" id="L{number}">{number}</td>'


def _heat(notes: Notes, number: int) -> str:
    if not notes.heat:
        return ""
    found = notes.heat.get(number)
    if found is None:
        return '<td class="cg-heat"></td>'
    share = 100 * found.share
    text = f"{share:.0f} %" if share >= 1 else "&lt; 1 %"
    return (
        f'<td class="cg-heat" style="--heat:{min(100, 8 + 2 * share):.0f}%" title="{tooltip(found.words)}">{text}</td>'
    )


def _says(text: str, before: int) -> str:
    return f'<tr class="cg-says"><td colspan="{before}"></td><td>{escape_html(text)}</td></tr>'
