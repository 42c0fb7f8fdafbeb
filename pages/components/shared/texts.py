"""Everything from kernels, logs, models and files goes to the browser through these functions, escaped.

Streamlit's own message boxes and most labels read Markdown; `note` and `plain_label` are used instead. What goes into
an element that shows text as it stands (`st.text`, `st.code`, the options of a selectbox) goes through `show_hidden`.
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
"""The shape beside every state word."""

_TITLES = {"error": "✗ Error", "warning": "▲ Attention", "info": "→ Note", "ok": "✓"}


def plain_label(text: object) -> str:
    """Text for a widget's label, which Streamlit would otherwise read as Markdown; one line."""
    line = " ".join(show_hidden(str(text)).split())
    return _PUNCTUATION.sub(r"\\\1", _REWRITTEN.sub(_BREAK, line))


def tooltip(text: object) -> str:
    """Text for a `title` attribute."""
    return html.escape(_LOOKS_CLOSING.sub(_BREAK, show_hidden(str(text))), quote=True)


def in_chart(text: object) -> str:
    """Text for a label or a hover of Plotly, which reads some HTML, few entities, and `%{x}` in templates."""
    return html.escape(show_hidden(str(text)), quote=False).replace("%", "&#37;")


def note(kind: Literal["error", "warning", "info", "ok"], text: str) -> None:
    """A message box whose text is shown as it stands."""
    st.html(
        f'<div class="cg-note cg-{kind}" role="status"><b>{_TITLES[kind]}</b> <span>{escape_html(text)}</span></div>'
    )


def quiet(text: str) -> None:
    """A line in small, grey type."""
    st.html(f'<div class="cg-quiet">{escape_html(text)}</div>')


def heading(text: str, *, is_code: bool = False) -> None:
    """A section's small heading; code keeps its small letters."""
    st.html(f'<h2 class="cg-heading{" cg-identifier" if is_code else ""}">{escape_html(text)}</h2>')


def scrolled(what: str) -> None:
    """In a region that scrolls: a stop of the Tab key, seen only while it is there; the arrow keys scroll from it."""
    st.html(f'<p class="cg-scrolled" tabindex="0">{escape_html(what)}: arrow keys scroll</p>')


def heard(text: str) -> None:
    """Words for those who do not see the picture that follows."""
    st.html(f'<p class="cg-heard">{escape_html(text)}</p>')


def chip(text: str, kind: str = "", title: str = "") -> str:
    """HTML of a small label; `kind` is one of the states or empty."""
    return f'<span class="cg-chip cg-{escape_html(kind)}" title="{tooltip(title)}">{escape_html(text)}</span>'


def table(header: tuple[str, ...], rows: list[tuple[object, ...]], *, numbers_from: int = 1, wide: str = "") -> str:
    """HTML of a dense table; columns from `numbers_from` on are right-aligned. Cells of type `Html` are not escaped.

    Args:
        wide: its name where it may be wider than its place: a stop of the Tab key, scrolled by the arrow keys.
    """
    head = "".join(_head(h, _align(i, numbers_from)) for i, h in enumerate(header))
    body = "".join(
        "<tr>" + "".join(f"<td{_align(i, numbers_from)}>{_cell(c)}</td>" for i, c in enumerate(row)) + "</tr>"
        for row in rows
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    stop = f' tabindex="0" role="region" aria-label="{escape_html(wide)}"' if wide else ""
    return f'<div class="cg-scroll"{stop}><table class="cg-table">{inner}</table></div>'


class Html(str):
    """Markup made here, from escaped parts."""


def when(at: float) -> str:
    """How long ago, in words."""
    seconds = max(0, int(time.time() - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "just now"


def _align(column: int, numbers_from: int) -> str:
    return ' class="cg-n"' if column >= numbers_from else ""


def _head(name: str, align: str) -> str:
    """A column's head; a corner without a name heads nothing."""
    return f'<th scope="col"{align}>{escape_html(name)}</th>' if name else "<td></td>"


def _cell(value: object) -> str:
    return value if isinstance(value, Html) else escape_html("" if value is None else value)
