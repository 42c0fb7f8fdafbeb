"""Draw the prompt gate: the prompt to review and edit before it is sent."""

from __future__ import annotations

import streamlit as st

from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, quiet

PROMPT_HEIGHT_PX = 470
EMPTY = "The prompt is empty. Restore it, or Stop."


def is_open(view: SessionView) -> bool:
    return view.state.gate is not None and view.state.gate.gate is Gate.PROMPT


def text_key(view: SessionView) -> str:
    """Return the field's key, a new one at every opening of the gate, so that no later prompt overwrites the text."""
    return ui_state.field_key(f"prompt-{view.id}-{view.state.gate.seq if view.state.gate else 0}")


def send(store: Store, view: SessionView) -> ui_state.MakeDecision:
    """Make the approval, bound to what is shown; it carries the text only where the user has changed it."""
    seen = view.state.meaning_seq
    original = store.text(view.state.gate.prompt) if view.state.gate else ""

    def make(text: str) -> Decision:
        return Decision(DecisionKind.APPROVE, seen, gate=Gate.PROMPT, text="" if text == original else text)

    return make


def render_prompt_gate(store: Store, view: SessionView) -> None:
    """Draw the field with its size, what was left out, and the buttons Send and Restore."""
    gate = view.state.gate
    if gate is None or gate.gate is not Gate.PROMPT:
        return
    original, key = store.text(gate.prompt), text_key(view)
    ui_state.put_once(key, original)
    heading(f"Prompt for {gate.role or 'the next kernel'} · not sent yet")
    text = st.text_area("Prompt", key=key, height=PROMPT_HEIGHT_PX, label_visibility="collapsed",
                        persist_state="session")  # fmt: skip
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(
            "Send this prompt", key="prompt-send", type="primary", shortcut="Ctrl+Enter",
            on_click=ui_state.noted(ui_state.choose, view.id, send(store, view), key, EMPTY),
        )  # fmt: skip
        st.button("Restore", key="prompt-restore", disabled=text == original,
                  on_click=ui_state.noted(ui_state.replace, key, original))  # fmt: skip
        changed = "unchanged" if text == original else "edited by you"
        left_out = gate.note.partition("left out:")[2].strip()
        quiet(
            f"About {estimate_tokens(text):,} tokens, {changed}. "
            f"{f'Left out to fit the context: {left_out}.' if left_out else 'Nothing was left out.'}"
        )
