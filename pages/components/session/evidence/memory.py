"""Edit what the model is told besides the task: standing instructions, and the outcome of each attempt."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.trajectory.state import Step
from cutegen_core.views import SessionView, StepView
from cutegen_core.views.wording import USE_OTHER
from pages.components.shared import ui_state
from pages.components.shared.texts import Html, escape_html, heading, quiet, table


def render_memory(view: SessionView, shown: StepView) -> None:
    """Draw both as fields; without a model they are only stored."""
    heading("Standing instructions, in every prompt")
    _field(
        f"standing-{view.id}", view.state.standing, "standing-save", "Save",
        lambda text: Decision(DecisionKind.STANDING, text=text), view,
        placeholder="Never change the tile shape. Prefer cute::copy over loops. …",
    )  # fmt: skip
    step = shown.step
    if step.outcome is not None:
        heading(f"What the model is told about step {step.number}")
        _field(
            f"memory-{view.id}-{step.number}", remembered(step), "memory-save", f"Save for step {step.number}",
            lambda text: Decision(DecisionKind.MEMORY, step=step.number, text=text), view,
        )  # fmt: skip
        if step.memory:
            quiet(f"Edited by you. An empty field restores: {_outcome(step)}")
    heading("All attempts")
    rows: list[tuple[object, ...]] = [
        (s.number, s.idea or "no kernel", Html(f"{escape_html(remembered(s))}{_edited(s)}"))
        for s in view.state.steps
        if s.outcome is not None
    ]
    if rows:
        st.html(table(("step", "idea", "told to the model"), rows, numbers_from=9))
        quiet("Open a step to edit its entry.")
    else:
        quiet("No attempt has finished yet.")


def remembered(step: Step) -> str:
    """Return what the strategy tells about a step."""
    return step.memory or _outcome(step)


def _outcome(step: Step) -> str:
    return f"{step.outcome}: {step.note}" if step.note else str(step.outcome)


def _edited(step: Step) -> str:
    return ' <span class="cg-warning">(edited)</span>' if step.memory else ""


def _field(
    key: str, value: str, button: str, label: str, make: ui_state.MakeDecision, view: SessionView, placeholder: str = ""
) -> None:
    """Draw a field that keeps what is typed; show a value saved elsewhere, and a button that takes it over."""
    shown = f"{key}-seen"
    name, key = key, ui_state.field_key(key)
    ui_state.put_once(key, value)
    if not ui_state.text(key).strip() and value != ui_state.text(shown):  # an empty field was saved
        ui_state.replace(key, value)
        key = ui_state.field_key(name)
    if value.strip() == ui_state.text(key).strip():
        ui_state.put(shown, value)
    read_only = view.state.settings.imported
    st.text_area(label, key=key, height=90, label_visibility="collapsed", placeholder=placeholder, disabled=read_only,
                 persist_state="session")  # fmt: skip
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(
            label, key=button, disabled=read_only, on_click=ui_state.noted(ui_state.choose_as_typed, view.id, make, key)
        )
        if value != ui_state.text(shown):
            st.button(USE_OTHER, key=f"{button}-other", on_click=ui_state.noted(ui_state.replace, key, value))
            quiet(f"▲ Saved now: {value or 'nothing'}")
