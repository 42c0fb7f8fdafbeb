"""Draw a table of code in a scrolling pane, with a map of its changes and messages beside it.

The map's script (`code_pane.js`) brings the first change of the code into view, goes to the next or previous hunk by
key, and unfolds what a link points into. The table itself works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from cutegen_core.records.candidate import content_key
from cutegen_core.records.wording import counted
from cutegen_core.views.code_text import diff

_HERE = Path(__file__)
MAP_WIDTH_PX = 14
NEXT, PREVIOUS, UNFOLD = "J", "Shift+J", "U"
"""Keys of the script; `data-cg-go` on a button does the same."""


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    js, css = (_HERE.with_suffix(end).read_text(encoding="utf-8") for end in (".js", ".css"))
    return st.components.v2.component("cutegen-code-map", js=js, css=css)


def render_code(html: str) -> None:
    """Draw the table and its map."""
    with st.container(key="code-frame", horizontal=True, gap=None):
        with st.container(key="code-pane", width="stretch"):
            st.html(html)
        _component()(key="code-map", data={"shown": content_key(html)}, width=MAP_WIDTH_PX, height="stretch")


def change_line(left: str, right: str) -> str:
    """Write "+12 −5 · 3 hunks" as HTML, with buttons to the previous and the next hunk and for all unchanged lines."""
    found, number = diff.summary(left, right), sum(row.hunk > 0 for row in diff.aligned(left, right))
    if not number:
        return '<div class="cg-change"><b>no change</b></div>'
    return (
        f'<div class="cg-change"><b><span class="cg-passed">+{found.added}</span> '
        f'<span class="cg-failed">−{found.removed}</span></b> <span class="cg-at">· {counted(number, "hunk")}</span>'
        f"{_button('next', '↓', NEXT, 'Next hunk')}{_button('previous', '↑', PREVIOUS, 'Previous hunk')}"
        f"{_button('unfold', '⋯ all', UNFOLD, 'Show or fold the unchanged lines')}</div>"
    )


def _button(go: str, sign: str, key: str, title: str) -> str:
    return (
        f'<button type="button" class="cg-go" data-cg-go="{go}" title="{title} ({key})" aria-label="{title}">'
        f"{sign} <kbd>{key}</kbd></button>"
    )
