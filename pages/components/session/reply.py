"""Draw the reply gate: a prompt to copy to any model, and the field for its reply or for the person's own answer."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.decision import Gate
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.roles import answer_field, answer_gate
from pages.components.shared.texts import heading, quiet

_KERNEL = "The reply holds a whole kernel file, or SEARCH/REPLACE blocks for the current one."


def render_reply_gate(store: Store, view: SessionView) -> None:
    """Draw the prompt with a copy button, the field for the reply, and the button that submits it."""
    gate = view.state.gate
    if gate is None or gate.gate is not Gate.REPLY:
        return
    form = answer_gate.form_of(gate.role)
    about = f"Prompt for {gate.role}: read it, or copy it into any model" if form else "Copy this prompt into any model"
    heading(f"1 · {about}")
    with st.container(key="prompt-pane", height=260, border=False):
        st.code(store.text(gate.prompt), language=None, wrap_lines=True)
    if access.looks_on():
        return
    heading("2 · Paste its reply, or write your own answer" if form else "2 · Paste its reply")
    answer_field.render_field(store, view, gate, "The model's reply", height=220)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Submit reply", key="reply-read", type="primary", shortcut="Ctrl+Enter",
            on_click=answer_field.submitting(store, view, gate, "Paste the reply first."),
        )  # fmt: skip
        quiet(form or _KERNEL)
