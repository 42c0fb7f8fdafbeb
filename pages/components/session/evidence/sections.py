"""Draw sections of evidence: sentences as lines, rows as a table."""

from __future__ import annotations

import re

import streamlit as st

from cutegen_core.records.evidence import Remark, Section, Tone
from pages.components.shared.texts import Html, escape_html, heading, note, quiet, table

_SHAPES = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.BETTER: "▲", Tone.WORSE: "▼", Tone.DOUBTFUL: "▲"}
_KINDS = {
    Tone.GOOD: "passed", Tone.BAD: "failed", Tone.BETTER: "passed", Tone.WORSE: "failed", Tone.DOUBTFUL: "warning",
}  # fmt: skip
"""The shape before a remark, and the class that colours it."""
_COORDINATES = re.compile(r"\(\d+(, \d+)*\)")


def render_section(section: Section, toned_column: int | None = None) -> None:
    """Draw the title, every sentence, and the table; `toned_column` as for `rows_table`."""
    heading(section.title)
    render_sentences(section.sentences)
    if section.rows:
        st.html(rows_table(section, toned_column))


def render_sentences(remarks: tuple[Remark, ...]) -> None:
    """Draw remarks one below the other, each as its tone asks for."""
    for remark in remarks:
        if remark.tone is Tone.PATTERN:
            st.html(f'<div class="cg-pattern">{escape_html(remark.text)}</div>')
        elif remark.tone is Tone.BAD:
            note("error", remark.text)
        elif remark.tone is Tone.GOOD:
            note("ok", remark.text)
        else:
            quiet(f"{_SHAPES[remark.tone]} {remark.text}" if remark.tone in _SHAPES else remark.text)


def rows_table(section: Section, toned_column: int | None = None) -> str:
    """Write the rows as an HTML table; the notes of a row are folded below its last text.

    Args:
        toned_column: the one that carries the shape and the colour of the row's tone.
    """
    notes = section.notes_column
    rows = [tuple(_cell(row, i, toned_column, notes) for i in range(len(row.cells))) for row in section.rows]
    return table(section.columns, rows, numbers_from=section.numbers_from)


def _cell(row: Remark, column: int, toned_column: int | None, notes: int) -> object:
    text = row.cells[column]
    if column == toned_column:
        return Html(toned(row.tone, text))
    if column == notes and row.notes:
        counted = f"{len(row.notes)} note{'' if len(row.notes) == 1 else 's'}"
        folded = "<br>".join(escape_html(line) for line in row.notes)
        return Html(f"{escape_html(text)}<details><summary>{counted}</summary>{folded}</details>")
    return Html(f'<span class="cg-state">{text}</span>') if _COORDINATES.fullmatch(text) else text


def toned(tone: Tone, text: str) -> str:
    """Write a text as HTML with the shape and the colour of its tone."""
    shown = escape_html(text)
    return f'<span class="cg-{_KINDS[tone]}">{_SHAPES[tone]} {shown}</span>' if tone in _SHAPES else shown
