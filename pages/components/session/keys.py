"""Every key of the session page in one list, a key away."""

from __future__ import annotations

import streamlit as st

from pages.components.shared.texts import quiet, table

KEYS: tuple[tuple[str, str], ...] = (
    ("A", "approve what waits: send the prompt, take the plan or the change, promote"),
    ("E", "edit the shown kernel by hand; Ctrl+Enter runs the edit"),
    ("K", "open the hunks of the change; there: make a candidate of the kept ones"),
    ("1 to 9", "keep or drop a hunk, while they are shown"),
    ("D", "redirect with the words in the line"),
    ("X", "reject, with the reason in the line"),
    ("W", "rewind to the shown step"),
    ("F", "accept and finish, after one more test"),
    ("S", "stop; G goes on"),
    ("B", "branch: go on from the shown step; the best one stays the best"),
    ("M", "more: raise the budget when it is used up"),
    ("T", "try the hunks apart, while they are shown: what each is worth"),
    ("P", "profile the shown kernel, on a GPU, in the profile pane"),
    (
        "O / N",
        "open the older, the newer step; in the list: arrows walk, ← to the kernel it was made from, Enter opens",
    ),
    ("V", "compare the shown step with the best"),
    ("H", "this list"),
)


def render_keys() -> None:
    """The button, and the list when it is pressed."""
    if st.button("Keys", key="keys", shortcut="H", width="stretch"):
        _show()


@st.dialog("Keys of this page")
def _show() -> None:
    rows: list[tuple[object, ...]] = [(key, what) for key, what in KEYS]
    st.html(table(("key", "does"), rows, numbers_from=9))
    quiet("Letters typed into a field are letters. Tab walks through everything; a click is never needed.")
