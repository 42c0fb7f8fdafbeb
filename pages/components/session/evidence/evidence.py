"""The evidence of one step, one pane at a time (the others are not computed); the pane is in the URL."""

from __future__ import annotations

from typing import Literal, cast

import streamlit as st

from cutegen_core import views
from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Stage, Status, Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session import exchanges, live_log
from pages.components.session.evidence.correctness import render_correctness
from pages.components.session.evidence.memory import render_memory
from pages.components.session.evidence.profile_pane import heat, render_profile
from pages.components.session.evidence.resources import render_resources
from pages.components.session.evidence.roofline import render_roofline
from pages.components.session.evidence.sass import render_sass
from pages.components.session.evidence.sweep import render_sweep
from pages.components.session.evidence.timing import render_timing
from pages.components.shared import address, ui_state
from pages.components.shared.texts import Html, escape_html, heading, note, quiet, scrolled, show_hidden, table

Pane = Literal[
    "sweep", "log", "correctness", "timing", "roofline", "profile", "resources", "sass", "prompt", "memory"
]  # fmt: skip
PANES: tuple[Pane, ...] = (
    "log", "correctness", "timing", "roofline", "profile", "resources", "sass", "prompt", "memory",
)  # fmt: skip
SWEEP_PANES: tuple[Pane, ...] = ("sweep", *PANES)
RAW_LOG_CHARACTERS = 200_000


def render_evidence(store: Store, view: SessionView, shown: StepView) -> None:
    """The choice of the pane, and the pane."""
    failed = exchanges.failed_step(store, view, shown)
    pane = _choose(shown, failed.trial)
    with st.container(key="evidence-body"):
        scrolled("Evidence")
        if pane == "prompt":
            exchanges.render_exchanges(shown)
        elif pane == "memory":
            render_memory(view, shown)
        elif pane == "sweep":
            render_sweep(store, shown.step.sweep)
        else:
            _trial_pane(store, view, shown, failed, pane)


def _trial_pane(store: Store, view: SessionView, shown: StepView, failed: StepView, pane: Pane) -> None:
    """Evidence of a trial; while a repair has none yet, of the failure it mends, with the model's diagnosis."""
    exchanges.render_diagnosis(exchanges.diagnosis_of(store, view, shown))
    if failed is not shown:
        heading(f"Evidence of step {failed.step.number}, which this step mends")
    if failed.trial is None and live_log.is_running(view, shown):
        live_log.render_live_log(store, view)
    elif failed.trial is None:
        quiet(_why_nothing(view, shown))
    elif pane == "log":
        _log(failed.trial)
    elif pane == "correctness":
        render_correctness(failed.trial)
    elif pane == "timing":
        render_timing(failed.trial)
    elif pane == "roofline":
        earlier = [row for row in views.speed_rows(store, view.state) if row.step < failed.step.number]
        render_roofline(failed.trial, earlier)
    elif pane == "profile":
        found = views.profile_view(store, view.state, failed.step)
        render_profile(view, failed, found, _parents_profile(store, view, failed))
    elif pane == "sass":
        found = views.profile_view(store, view.state, failed.step)
        render_sass(store, failed, failed.trial.resources, heat(found.profile))
    else:
        render_resources(failed.trial, views.base_trial(store, view.state, failed.step))


def _parents_profile(store: Store, view: SessionView, shown: StepView) -> Profile | None:
    parent = shown.step.parent or shown.step.base
    step = view.state.step_of(parent) if parent and parent != shown.step.candidate else None
    return views.profile_view(store, view.state, step).profile if step else None


def _choose(shown: StepView, trial: Trial | None) -> Pane:
    wanted = st.query_params.get("pane", "")
    panes = SWEEP_PANES if shown.step.sweep else PANES
    telling = "sweep" if shown.step.sweep else _telling(trial)
    # One widget for every answer of its own: a browser that still echoes the last one would count as a click.
    key = f"pane-{telling}"
    drawn = wanted if wanted in panes else telling
    ui_state.put(key, drawn)
    chosen = st.segmented_control(
        "Evidence", panes, key=key, required=True, label_visibility="collapsed",
        on_change=ui_state.noted(address.follow, key, "pane", drawn),
    )  # fmt: skip
    return cast(Pane, chosen)


def _telling(trial: Trial | None) -> Pane:
    """The pane that explains the verdict."""
    if trial is not None and trial.performance is not None:
        return "timing"
    if trial is None or trial.status is Status.PASSED:
        return "correctness"
    return "correctness" if trial.failed_stage is Stage.TEST else "log"


def _why_nothing(view: SessionView, shown: StepView) -> str:
    if shown.step.outcome is not None:
        return f"This step was never tried: {shown.step.outcome}. {shown.step.note}"
    if shown.step.candidate is None:
        return "Compile log, correctness and resources appear here once there is a kernel."
    if view.state.gate is not None:
        return "Not tried yet. Compile log, correctness and resources appear here after the approval."
    return "Compile log, correctness and resources appear here as the stages end."


def _log(trial: Trial) -> None:
    """Messages at the user's own lines; the compiler's raw text one click away."""
    if trial.message:
        note("error", trial.message)
    rows: list[tuple[object, ...]] = [
        (d.line or "-", d.severity, Html(_message(d.message, d.notes)), d.tool) for d in trial.diagnostics
    ]
    if rows:
        st.html(table(("line", "severity", "message", "from"), rows, numbers_from=9))
    else:
        quiet("The compiler had nothing to say about your lines.")
    if not trial.log:
        quiet("There is no raw log: nothing was compiled or the answer came from the cache.")
    elif st.toggle(f"Raw log, {len(trial.log.splitlines())} lines", key="raw-log"):
        st.code(show_hidden(trial.log[:RAW_LOG_CHARACTERS]), language=None, wrap_lines=True)


def _message(message: str, notes: tuple[str, ...]) -> str:
    if not notes:
        return escape_html(message)
    counted = f"{len(notes)} note{'' if len(notes) == 1 else 's'}"
    folded = "<br>".join(escape_html(text) for text in notes)
    return f"{escape_html(message)}<details><summary>{counted}</summary>{folded}</details>"
