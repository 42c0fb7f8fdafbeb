"""What the model is told besides the task: instructions that hold for every step, and what became of each attempt."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.trajectory.state import Step
from cutegen_core.views import SessionView, StepView
from pages.components.shared import ui_state
from pages.components.shared.texts import Html, escape_html, heading, quiet, table


def render_memory(view: SessionView, shown: StepView) -> None:
    """Both, editable; without a model they are only kept."""
    heading("Standing instructions, in every prompt")
    _field(
        f"standing-{view.id}", view.state.standing, "standing-save", "Keep",
        lambda text: Decision(DecisionKind.STANDING, text=text), view,
        placeholder="Never change the tile shape. Prefer cute::copy over loops. …",
    )  # fmt: skip
    step = shown.step
    if step.outcome is not None:
        heading(f"What the model is told about step {step.number}")
        _field(
            f"memory-{view.id}-{step.number}", remembered(step), "memory-save", f"Keep for step {step.number}",
            lambda text: Decision(DecisionKind.MEMORY, step=step.number, text=text), view,
        )  # fmt: skip
        if step.memory:
            quiet(f"Changed by you. An empty field brings back: {_outcome(step)}")
    heading("All attempts")
    rows: list[tuple[object, ...]] = [
        (s.number, s.idea or "no kernel", Html(f"{escape_html(remembered(s))}{_edited(s)}"))
        for s in view.state.steps
        if s.outcome is not None
    ]
    if rows:
        st.html(table(("step", "idea", "told"), rows, numbers_from=9))
        quiet("Open a step to change what is told about it.")
    else:
        quiet("No attempt has ended yet.")


def remembered(step: Step) -> str:
    """As the strategy tells it."""
    return step.memory or _outcome(step)


def _outcome(step: Step) -> str:
    return f"{step.outcome}: {step.note}" if step.note else str(step.outcome)


def _edited(step: Step) -> str:
    return ' <span class="cg-warning">(yours)</span>' if step.memory else ""


def _field(
    key: str, value: str, button: str, label: str, make: ui_state.MakeDecision, view: SessionView, placeholder: str = ""
) -> None:
    """What is typed is never overwritten: what is kept now is said, and taken over when that is wanted."""
    ui_state.put_once(key, value)
    if not ui_state.text(key).strip() and value != ui_state.text(f"{key}-seen"):  # emptied and kept: what that brings
        ui_state.put(key, value)
    if value.strip() == ui_state.text(key).strip():
        ui_state.put(f"{key}-seen", value)
    read_only = view.state.settings.imported
    st.text_area(label, key=key, height=90, label_visibility="collapsed", placeholder=placeholder, disabled=read_only,
                 persist_state="session")  # fmt: skip
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(
            label, key=button, disabled=read_only, on_click=ui_state.noted(ui_state.choose_as_typed, view.id, make, key)
        )
        if value != ui_state.text(f"{key}-seen"):
            st.button("Take it", key=f"{button}-other", on_click=ui_state.noted(ui_state.put, key, value))
            quiet(f"▲ Kept now: {value or 'nothing'}")
