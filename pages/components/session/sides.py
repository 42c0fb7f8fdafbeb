"""Draw the switch between the panes of a narrow window: the style sheet shows it there and hides what is not chosen."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.decision import Gate
from cutegen_core.views import SessionView, StepView
from pages.components.shared.texts import escape_html

SIDES = {"steps": "Steps", "kernel": "Kernel", "evidence": "Evidence", "both": "Kernel and evidence"}
"""The panes that a narrow window can show; a wide one shows all."""


def render_sides(view: SessionView, shown: StepView | None, *, evidence: bool) -> None:
    """Draw the switch. The browser keeps the choice until another pane decides what is asked."""
    offered = SIDES if evidence else {key: SIDES[key] for key in ("steps", "kernel")}
    first = _deciding(view, shown) if evidence else "kernel"
    choices = "".join(_choice(key, title, is_chosen=key == first) for key, title in offered.items())
    st.html(f'<div class="cg-sides" role="radiogroup" aria-label="Panes">{choices}</div>')


def _deciding(view: SessionView, shown: StepView | None) -> str:
    """Return the pane that decides this moment: the evidence of a verdict to review, else the kernel."""
    gate = view.state.gate
    asked = gate is not None and gate.gate is Gate.PROMOTION
    return "evidence" if asked and shown is not None and shown.step is view.state.step else "kernel"


def _choice(key: str, title: str, *, is_chosen: bool) -> str:
    checked = " checked" if is_chosen else ""
    field = f'<input type="radio" name="cg-side" id="cg-side-{key}"{checked}>'
    return f'{field}<label for="cg-side-{key}">{escape_html(title)}</label>'
