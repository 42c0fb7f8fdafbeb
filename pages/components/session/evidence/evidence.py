"""Draw the evidence of one step, one pane at a time; the address names the pane, and the others are not computed."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.trial import Stage, Status, Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session import exchanges, live_log
from pages.components.session.evidence import panes
from pages.components.session.evidence.pane import Pane, PaneInput
from pages.components.shared import address, ui_state
from pages.components.shared.texts import heading, quiet, scrolled


def render_evidence(store: Store, view: SessionView, shown: StepView) -> None:
    """Draw the switch and the chosen pane."""
    tried = exchanges.failed_step(store, view, shown)
    pane = _choose(view, shown, tried.trial)
    with st.container(key="evidence-body"):
        scrolled("Evidence")
        given = PaneInput(store, view, shown, tried)
        if pane.needs_trial:
            _render_of_trial(given, pane)
        else:
            pane.render(given)


def _render_of_trial(given: PaneInput, pane: Pane) -> None:
    """Draw a pane below the model's diagnosis; a repair that has no trial yet shows the failure that it repairs."""
    store, view, shown, tried = given.store, given.view, given.shown, given.tried
    exchanges.render_diagnosis(exchanges.diagnosis_of(store, view, shown))
    if tried is not shown:
        heading(f"Evidence of step {tried.step.number}, which this step repairs")
    if tried.trial is not None:
        pane.render(given)
    elif live_log.is_running(view, shown):
        live_log.render_live_log(store, view)
    else:
        quiet(_why_nothing(view, shown))


def _choose(view: SessionView, shown: StepView, trial: Trial | None) -> Pane:
    """Draw the switch and return the chosen pane: the one in the address, else the one that explains the verdict."""
    offered = {pane.key: pane for pane in panes.PANES if pane.shown_when(shown)}
    wanted, telling = st.query_params.get("pane", ""), _telling(view, shown, trial)
    # One widget for every default: a browser that still echoes the last one would count as a click.
    drawn = wanted if wanted in offered else telling
    key = ui_state.showing(f"pane-{telling}", drawn)
    chosen = st.segmented_control(
        "Evidence", list(offered), default=drawn, key=key, required=True, label_visibility="collapsed",
        format_func=lambda name: offered[name].title, on_change=ui_state.noted(address.follow, key, "pane", drawn),
    )  # fmt: skip
    return offered[chosen or telling]


def _telling(view: SessionView, shown: StepView, trial: Trial | None) -> str:
    """Return the key of the pane that explains the verdict; before there is one, what the roles start from."""
    if shown.step.sweep:
        return "sweep"
    if trial is None and shown.step.alternatives:
        return "candidates"
    if trial is None and shown.step.base and views.roles_of(view.state):
        return "shapes"
    if trial is not None and trial.performance is not None:
        return "timing"
    if trial is None or trial.status is Status.PASSED:
        return "correctness"
    return "correctness" if trial.failed_stage is Stage.TEST else "log"


def _why_nothing(view: SessionView, shown: StepView) -> str:
    if shown.step.outcome is not None:
        return f"This step was not tested: {shown.step.outcome}. {shown.step.note}"
    if shown.step.candidate is None:
        return "Compile log, correctness and resources appear here once there is a kernel."
    if view.state.gate is not None:
        return "Not tested yet. Compile log, correctness and resources appear here after your approval."
    return "Compile log, correctness and resources appear here as the stages finish."
