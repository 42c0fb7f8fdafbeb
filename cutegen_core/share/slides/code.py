"""Turn sources into rows for a slide: a whole source, or its change, with the messages at its lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from markupsafe import Markup

from cutegen_core.kernel.plan_words import plan_lines
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import counted
from cutegen_core.views.code_text import diff, highlight
from cutegen_core.views.code_text.highlight import Language, Piece

Says = Mapping[int, tuple[str, ...]]
"""What the compiler and the checker say of a line, by its 1-based number."""
CONTEXTS = (12, 9, 6, 4, 2)
"""Unchanged lines around a change: as many as leave it in large type."""
LARGE_ROWS, MOST_ROWS = 28, 36
_FITS = (("huge", 72, 22), ("large", 86, 28), ("middle", 102, 36))
"""Type, characters in a row and rows that fit into the picture; what fits nowhere is set small and scrolls."""
_KEPT_SHARE = 0.5
_IDEA = re.compile(r"^idea = .*$", re.MULTILINE)
_SIGNS = {"add": "+", "del": "−", "bad": "✗"}


class CodeRow(NamedTuple):
    """A row; a gap and a message have no number."""

    kind: Literal["same", "add", "del", "bad", "gap", "says"]
    number: int | None
    text: Markup | str

    @property
    def sign(self) -> str:
        return _SIGNS.get(self.kind, "")


class Code(NamedTuple):
    """A source, or a change, under its title."""

    title: str
    rows: tuple[CodeRow, ...]

    @property
    def size(self) -> str:
        """Return the largest type in which all of it fits."""
        lengths = [len(Markup(row.text).striptags()) for row in self.rows]
        fitting = (name for name, width, rows in _FITS if sum(1 + length // width for length in lengths) <= rows)
        return next(fitting, "small")


def whole(source: str, title: str, language: Language = "cuda", says: Says | None = None) -> Code:
    """Return every line of a source."""
    rows = [row for i, line in enumerate(highlight.pieces(source, language)) for row in _line(i, line, (), False, says)]
    return Code(title, tuple(rows))


def without_plan(source: str, title: str, says: Says | None = None) -> Code:
    """Return a kernel whose launch plan is folded."""
    code = whole(source, f"{title}, {counted(len(source.splitlines()), 'line')}", says=says)
    end = plan_lines(source)
    return code._replace(rows=(_folded_plan(end), *_below(code.rows, end))) if end else code


def change(before: str, after: str, origin: str, says: Says) -> Code:
    """Return what changed since `before`, which `origin` names; of a kernel mostly rewritten, the new one alone.

    A long change folds the launch plan, so that the code comes first.
    """
    compared = _with_idea_of(after, before)
    summary = diff.summary(compared, after)
    if summary == (0, 0):
        return without_plan(after, f"The same kernel as {origin}", says)
    anew = summary.removed > _KEPT_SHARE * len(diff.plain_lines(before))
    rows = _drawn(_fitting(compared, after, says), before, after, says, anew)
    end = plan_lines(after)
    below = _below(rows, end)
    if end and len(rows) > MOST_ROWS and any(row.kind in _SIGNS for row in below):
        rows = [_folded_plan(end), *below]
    what = "Mostly written anew" if anew else "Changed"
    told = f"{counted(summary.added, 'line')} added, {summary.removed} removed"
    return Code(f"{what} since {origin}: {told}", tuple(rows))


def _fitting(before: str, after: str, says: Says) -> Sequence[diff.Row]:
    """Return the difference with as much around it as fits at once."""
    for context in CONTEXTS:
        rows = diff.rows(before, after, keep=tuple(says), context=context)
        if sum(2 if row.kind == "changed" and None not in (row.left, row.right) else 1 for row in rows) <= LARGE_ROWS:
            break
    return rows


def _drawn(rows: Sequence[diff.Row], before: str, after: str, says: Says, anew: bool) -> list[CodeRow]:
    old, new = highlight.pieces(before), highlight.pieces(after)
    found: list[CodeRow] = []
    for is_changed, group in groupby(rows, key=lambda row: row.kind == "changed"):
        run = list(group)
        if is_changed and not anew:
            found += [CodeRow("del", row.left + 1, Markup(highlight.marked(_at(old, row.left), row.words.old)))
                      for row in run if row.left is not None]  # fmt: skip
        for row in run:
            if row.kind == "gap":
                found.append(CodeRow("gap", None, f"⋯ {counted(row.hidden, 'unchanged line')}"))
            elif row.right is not None:
                words = () if anew else row.words.new
                found += _line(row.right, _at(new, row.right), words, is_changed, says)
    return found


def _with_idea_of(after: str, before: str) -> str:
    """Return the source with the other's idea line: the idea stands in the slide's title, so it is no change."""
    idea = _IDEA.search(after)
    return _IDEA.sub(lambda _: idea[0], before, count=1) if idea and _IDEA.search(before) else before


def _folded_plan(end: int) -> CodeRow:
    return CodeRow("gap", None, f"⋯ {counted(end, 'line')}: the launch plan")


def _below(rows: Sequence[CodeRow], end: int) -> list[CodeRow]:
    """Return the rows behind the launch plan, which ends on the new source's line `end`."""
    last = max((i for i, row in enumerate(rows) if row.kind != "del" and row.number and row.number <= end), default=-1)
    return list(rows[last + 1 :])


def said_of_lines(trial: Trial | None) -> Says:
    """Return the compiler's errors and the checker's findings by line."""
    said: dict[int, list[str]] = {}
    for diagnostic in trial.diagnostics if trial else ():
        if diagnostic.line and diagnostic.severity == "error":
            said.setdefault(diagnostic.line, []).append(diagnostic.message)
    failed = trial.correctness.first_failure if trial and trial.correctness else None
    for finding in failed.findings if failed else ():
        if finding.line:
            said.setdefault(finding.line, []).append(f"{finding.kind}: {finding.message}")
    return {number: tuple(dict.fromkeys(words)) for number, words in said.items()}


def one_line(source: str, number: int) -> Markup | None:
    """Return a line of a kernel without its indentation; None if there is no such line."""
    lines = highlight.lines(source)
    return Markup(highlight.without_indent(lines[number - 1])) if 0 < number <= len(lines) else None


def _line(
    index: int, line: Sequence[Piece], words: Sequence[tuple[int, int]], is_new: bool, says: Says | None
) -> list[CodeRow]:
    said = says.get(index + 1, ()) if says else ()
    kind: Literal["same", "add", "bad"] = "bad" if said else "add" if is_new else "same"
    row = CodeRow(kind, index + 1, Markup(highlight.marked(line, words)))
    return [row, *(CodeRow("says", None, f"↑ {text}") for text in said)]


def _at(lines: Sequence[tuple[Piece, ...]], index: int) -> tuple[Piece, ...]:
    return lines[index] if index < len(lines) else ()
