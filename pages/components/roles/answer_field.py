"""Draw the field for a person's own answer: kept as a draft, and refused with the error named before it is sent."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from cutegen_core.propose.astra.faults import find_fault
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import Role
from cutegen_core.trajectory.state import OpenGate
from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.views import SessionView
from pages.components.editor import text_field
from pages.components.shared import ui_state
from pages.components.shared.texts import escape_html

FIELD_PX = 300


def name_of(view: SessionView, gate: OpenGate) -> str:
    """Name the field and its draft; a new one at every opening of a gate."""
    return name_at(view.id, gate.seq)


def name_at(session: str, opened: int) -> str:
    """Name the draft of the gate that was opened by this event."""
    return f"own-answer-{session}-{opened}"


def render_field(store: Store, view: SessionView, gate: OpenGate, label: str, *, height: int = FIELD_PX) -> None:
    """Draw the text with its draft, and what is wrong with it since it was last submitted."""
    name = name_of(view, gate)
    draft = store.draft(name) or Draft(str(gate.seq), "")
    field = text_field.take_over(name, draft)
    text_field.render_choice(store, name, field, draft)
    st.text_area(
        label, field.text, key=field.key, height=height, label_visibility="collapsed", persist_state="session",
        on_change=ui_state.noted(text_field.keep, store, name, field),
    )  # fmt: skip
    with st.container():  # always there, so that what is below keeps its place
        wrong = ui_state.held(f"wrong-{name}", tuple)
        if wrong and wrong[0] == ui_state.text(field.key):
            st.html(f'<div class="cg-field-error" role="alert">✗ Not sent: {escape_html(wrong[1])}</div>')


def submitting(store: Store, view: SessionView, gate: OpenGate, empty: str) -> Callable[[], None]:
    """Make the callback that submits the field's text as the reply; a wrong one stays, with the reason."""
    return ui_state.noted(_submit, store, view, gate, empty)


def forget(name: str) -> None:
    """Forget the field's text and its error."""
    text_field.forget(name)
    ui_state.forget(f"wrong-{name}")


def _submit(store: Store, view: SessionView, gate: OpenGate, empty: str) -> None:
    name, seen = name_of(view, gate), view.state.meaning_seq
    key = ui_state.field_key(name)
    typed = ui_state.text(key)
    wrong = find_fault(gate.role or Role.PROPOSER, typed, view.problem, base_of(store, view)) if typed.strip() else ""
    if wrong:
        _keep_wrong(store, name, gate, typed)
        ui_state.put(f"wrong-{name}", (typed, wrong))
        return
    ui_state.choose(
        view.id, lambda text: Decision(DecisionKind.REPLY, seen, gate=gate.gate, text=text), key, empty
    )  # fmt: skip


def _keep_wrong(store: Store, name: str, gate: OpenGate, typed: str) -> None:
    """Save the text with the error, so that a reload does not lose what is to be mended."""
    if store.draft(name) is None:
        store.save_draft(name, Draft(str(gate.seq), typed))


def base_of(store: Store, view: SessionView) -> str:
    """Return the kernel file that the open step goes on from."""
    step = view.state.open_step
    return store.text(step.base) if step and step.base else view.problem.existing
