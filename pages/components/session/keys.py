"""List every shortcut of the session page."""

from __future__ import annotations

import streamlit as st

from pages.components.shared.texts import quiet, table

KEYS: tuple[tuple[str, str], ...] = (
    ("A", "approve: send the prompt, accept an answer, the plan or the change, promote"),
    ("E", "edit the shown kernel, or the answer that waits; Ctrl+Enter runs or submits what is edited"),
    ("K", "show the hunks of the change; there: make a candidate of the kept ones"),
    ("1 to 9", "keep or drop a hunk, in the hunks view"),
    ("D", "redirect with the typed instruction; at an answer: the same role answers again"),
    ("X", "reject with the typed reason"),
    ("W", "rewind to the shown step"),
    ("F", "accept and finish, after one more test"),
    ("S", "stop"),
    ("G", "resume; for an imported session: replay"),
    ("B", "branch: continue from the shown step; the best kernel stays the best"),
    ("M", "raise the budget when it is used up"),
    ("T", "test each hunk, in the hunks view"),
    ("P", "profile the shown kernel, in the profile pane, on a GPU"),
    (
        "O / N",
        "open the older or newer step; in the list: arrow keys move, ← goes to the parent, Enter opens",
    ),
    ("V / Shift+V", "compare the shown step with the best, or with its parent"),
    (
        "Shift+Enter",
        "in the list: compare the focused step with the shown one; or drag a step onto another",
    ),
    ("J / Shift+J", "show the next or previous hunk"),
    ("U", "show or fold the unchanged lines and the launch plan"),
    ("Y", "open or close the PyTorch reference beside the kernel"),
    ("H", "show this list"),
)


def render_keys() -> None:
    """Draw the button that opens the list."""
    if st.button("Keys", key="keys", shortcut="H", width="stretch"):
        _show()


@st.dialog("Keyboard shortcuts")
def _show() -> None:
    rows: list[tuple[object, ...]] = [(key, what) for key, what in KEYS]
    st.html(table(("key", "action"), rows, numbers_from=9))
    quiet("Shortcuts are off while you type in a field. Tab reaches every control; no mouse is needed.")
