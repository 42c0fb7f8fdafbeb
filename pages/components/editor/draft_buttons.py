"""Draw the buttons that lead to what was typed and is not on the screen: kept drafts, and a discarded one."""

from __future__ import annotations

import streamlit as st

from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.editor import drafts
from pages.components.roles import answer_gate
from pages.components.shared import ui_state

SHOWN_DRAFTS = 3


def render_draft_buttons(store: Store, view: SessionView, shown: StepView | None, *, answers: bool) -> None:
    """Draw a button for each of the newest drafts, and one that undoes a discard here.

    Args:
        answers: whether the step is shown whose answer waits, so that a discarded answer is brought back first.
    """
    undo = None
    if answers and answer_gate.can_restore(store, view):
        undo = ui_state.noted(answer_gate.restore, store, view)
    elif drafts.can_restore(store, view, shown):
        undo = ui_state.noted(drafts.restore, store, view, shown)
    if undo:
        st.button("Undo discard", key="draft-restore", on_click=undo, help="Brings back what was discarded here")
    for found in drafts.elsewhere(store, view, shown)[:SHOWN_DRAFTS]:
        name = f"Draft of step {found.step}" if found.step else "Draft of a new kernel"
        st.button(
            name, key=f"draft-{found.draft.base[:12]}", on_click=ui_state.noted(drafts.show, view, found),
            help="Opens the editor on what you typed there",
        )  # fmt: skip
