"""Escape every text from kernels, logs, models and files on its way to the browser.

Streamlit's own message boxes and most labels read Markdown; use `note` and `plain_label` instead. A text for an element
that shows it unchanged (`st.text`, `st.code`, the options of a selectbox) goes through `show_hidden`.
"""

from __future__ import annotations

import html
import re
import time
from typing import Literal

import streamlit as st

from cutegen_core.machine.visible_text import escape_html, show_hidden

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# Where Streamlit changes plain text after the Markdown is read: bare addresses, arrows and dashes, its own icon.
_REWRITTEN = re.compile(r"(?<=[:@])(?=\S)|(?<=www)(?=\.)|(?<=[-<>~])(?=[-=>])", re.IGNORECASE)
# Streamlit's sanitiser drops an attribute in which it sees the end of a comment or of an element: `a[i]>b`, `p-->q`.
_LOOKS_CLOSING = re.compile(r"(?<=[-!\]])(?=>)|(?<=<)(?=/)")
_BREAK = "\u200b"

MARKS = {
    "passed": "✓", "failed": "✗", "running": "●", "waiting": "◆", "skipped": "–", "fresh": "○", "stale": "≠",
}  # fmt: skip
"""The shape before every state word."""

NoteKind = Literal["error", "warning", "info", "ok"]
_TITLES = {"error": "✗ Error", "warning": "▲ Warning", "info": "→ Note", "ok": "✓"}


def plain_label(text: object) -> str:
    """Write a text as a widget's label in one line, which Streamlit would otherwise read as Markdown."""
    line = " ".join(show_hidden(str(text)).split())
    return _PUNCTUATION.sub(r"\\\1", _REWRITTEN.sub(_BREAK, line))


def tooltip(text: object) -> str:
    """Write a text for a `title` attribute."""
    return html.escape(_LOOKS_CLOSING.sub(_BREAK, show_hidden(str(text))), quote=True)


def in_chart(text: object) -> str:
    """Write a text for a label or hover of Plotly, which reads some HTML, few entities, and `%{x}` in templates."""
    return html.escape(show_hidden(str(text)), quote=False).replace("%", "&#37;")


def note(kind: NoteKind, text: str) -> None:
    """Draw a message box that shows the text unchanged."""
    st.html(
        f'<div class="cg-note cg-{kind}" role="status"><b>{_TITLES[kind]}</b> <span>{escape_html(text)}</span></div>'
    )


def quiet(text: str) -> None:
    """Draw a line in small, grey type."""
    st.html(f'<div class="cg-quiet">{escape_html(text)}</div>')


def heading(text: str, *, is_code: bool = False) -> None:
    """Draw a section's small heading. It is shown as it is: in capitals a name or an expression would be another."""
    st.html(f'<h2 class="cg-heading{" cg-identifier" if is_code else ""}">{escape_html(text)}</h2>')


def scrolled(what: str) -> None:
    """Draw a stop for the Tab key in a scrolling region, visible while focused; the arrow keys scroll from it."""
    st.html(f'<p class="cg-scrolled" tabindex="0">{escape_html(what)}: arrow keys scroll</p>')


def heard(text: str) -> None:
    """Describe the picture that follows, for screen readers."""
    st.html(f'<p class="cg-heard">{escape_html(text)}</p>')


def chip(text: str, kind: str = "", title: str = "") -> str:
    """Write a small label as HTML; `kind` is a state or empty."""
    return f'<span class="cg-chip cg-{escape_html(kind)}" title="{tooltip(title)}">{escape_html(text)}</span>'


_LONGEST_NAME = 36
"""Letters of a row's name that a table keeps on one line."""


def table(header: tuple[str, ...], rows: list[tuple[object, ...]], *, numbers_from: int = 1) -> str:
    """Write a dense table as HTML. Columns from `numbers_from` on are right-aligned; cells of type `Html` stay as is.

    Any table is wider than its place in some window: Tab stops at it, and the arrow keys scroll it.
    """
    head = "".join(_head(h, _align(i, numbers_from)) for i, h in enumerate(header))
    body = "".join(f"<tr>{_cells(row, numbers_from)}</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    name = escape_html("table: " + ", ".join(title for title in header if title))
    scroll = f'<div class="cg-scroll" tabindex="0" role="group" aria-label="{name}">'
    return f'{scroll}<table class="cg-table">{inner}</table></div>'


class Html(str):
    """Markup that this application made from escaped parts."""


def when(at: float) -> str:
    """Write how long ago a time was."""
    seconds = max(0, int(time.time() - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "just now"


def _align(column: int, numbers_from: int) -> str:
    return ' class="cg-n"' if column >= numbers_from else ""


def _cells(row: tuple[object, ...], numbers_from: int) -> str:
    return "".join(f"<td{_align(i, numbers_from) or _long(i, c)}>{_cell(c)}</td>" for i, c in enumerate(row))


def _long(column: int, cell: object) -> str:
    """Let a long name at the beginning of a row wrap, so that its numbers stay in view."""
    return ' class="cg-long"' if column == 0 and len(str(cell)) > _LONGEST_NAME and not isinstance(cell, Html) else ""


def _head(name: str, align: str) -> str:
    """Write a column's head; an empty corner heads nothing."""
    return f'<th scope="col"{align}>{escape_html(name)}</th>' if name else "<td></td>"


def _cell(value: object) -> str:
    return value if isinstance(value, Html) else escape_html("" if value is None else value)
