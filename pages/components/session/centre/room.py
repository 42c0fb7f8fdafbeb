"""Share the width of the session page: what the moment does not need steps back.

1. Before a kernel is tested there is no evidence: the change gets its width, and the timeline is a narrow list.
2. Evidence that a person asks for by name comes back, and so does the reference (`?reference=1`), beside the kernel.
3. Who edits before there is evidence has the reference beside the editor.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.views import SessionView, StepView
from pages.components.problems.problem_view import render_reference
from pages.components.session import exchanges, live_log
from pages.components.session.evidence import panes
from pages.components.shared import address, ui_state

REFERENCE_KEY = "Y"
_REFERENCE = "reference"
_USUAL, _WIDE, _PAIR = (1.2, 2.45, 1.95), (0.85, 4.75), (0.85, 2.5, 2.25)


class Room(NamedTuple):
    """The columns of the page, and which parts are drawn beside the kernel."""

    columns: tuple[float, ...]
    evidence: bool = False
    chart: bool = False
    reference: bool = False


def of(view: SessionView, shown: StepView | None, *, editing: bool) -> Room:
    """Return the page's room for what is shown."""
    if reference_is_open():
        return Room(_PAIR, reference=True)
    if _has_evidence(view, shown):
        return Room(_USUAL, evidence=True, chart=True)
    return Room(_PAIR, reference=True) if editing else Room(_WIDE)


def _has_evidence(view: SessionView, shown: StepView | None) -> bool:
    """Tell whether the right column has anything to show."""
    if exchanges.is_at_work(view):
        return True
    if shown is None:
        return False
    repairs = shown.step.repair and shown.step.number > 1
    studied = bool(shown.step.sweep or shown.step.alternatives or views.roles_of(view.state))
    return bool(shown.trial) or repairs or studied or live_log.is_running(view, shown) or panes_are_asked_for()


def panes_are_asked_for() -> bool:
    """Tell whether the address names a pane that needs no test."""
    return any(pane.key == address.get("pane") and not pane.needs_trial for pane in panes.PANES)


# ---- the reference


def reference_is_open() -> bool:
    return bool(address.get(_REFERENCE))


def reference_button() -> None:
    """Draw the button that opens the PyTorch reference beside the kernel, or closes it."""
    is_open = reference_is_open()
    st.button(
        "Close reference" if is_open else "Reference", key="reference", shortcut=REFERENCE_KEY,
        help="The PyTorch reference next to the kernel, as its file has it",
        on_click=ui_state.noted(address.go, reference=None if is_open else "1"),
    )  # fmt: skip


def draw_reference(view: SessionView) -> None:
    """Draw the reference as its file has it."""
    problem = view.problem
    render_reference(problem.source, title=f"PyTorch reference · {Path(problem.origin).name}")


# ---- what steps back


def panes_button(shown: StepView) -> None:
    """Draw the button that opens what there is before a test: prompts and the note; or that closes it again."""
    if panes_are_asked_for():
        st.button("Close panes", key="panes-close", on_click=ui_state.noted(address.drop, "pane"))
        return
    pane = "prompt" if shown.calls else "memory"
    st.button("Prompt and notes", key="panes-open", on_click=ui_state.noted(address.go, pane=pane),
              help="What was asked and answered, and the note on this step")  # fmt: skip
