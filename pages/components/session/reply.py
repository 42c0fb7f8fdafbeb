"""Draw the reply gate: a prompt to copy to any model, and the field for its reply."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, quiet


def render_reply_gate(store: Store, view: SessionView) -> None:
    """Draw the prompt with a copy button, the field for the reply, and the button that submits it."""
    gate, seen = view.state.gate, view.state.meaning_seq
    if gate is None or gate.gate is not Gate.REPLY:
        return
    key = f"reply-{view.id}-{gate.seq}"

    def make(text: str) -> Decision:
        return Decision(DecisionKind.REPLY, seen, gate=Gate.REPLY, text=text)

    heading("1 · Copy this prompt into any model")
    with st.container(key="prompt-pane", height=260, border=False):
        st.code(store.text(gate.prompt), language=None, wrap_lines=True)
    heading("2 · Paste its reply")
    st.text_area("The model's reply", key=key, height=220, label_visibility="collapsed", persist_state="session")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Submit reply", key="reply-read", type="primary", shortcut="Ctrl+Enter",
            on_click=ui_state.noted(ui_state.choose, view.id, make, key, "Paste the reply first."),
        )  # fmt: skip
        quiet("The reply holds a whole kernel file, or SEARCH/REPLACE blocks for the current one.")
