"""Draw one run: its state and progress, and what it has measured so far."""

from __future__ import annotations

import time

import streamlit as st

from cutegen_core.records.gnn import RunProgress, Task
from cutegen_core.records.gnn_fields import FIELDS
from cutegen_core.records.job import JobState
from cutegen_core.records.wording import lowered
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from pages.components.access import access
from pages.components.gnn import measured, versus
from pages.components.shared import places, ui_state
from pages.components.shared.marks import JOB_MARKS
from pages.components.shared.texts import chip, escape_html, note, plain_label, quiet, table

POLL_S = 0.5


def render_run(store: Store, job: str) -> None:
    """Draw the run; while it waits or runs, fragments poll what changes. The buttons between them stay."""
    view = gnn.run_view(store, job)
    if view.job.is_over:
        _header(view)
        _actions(store, view)
        _body(store, view)
    else:
        st.fragment(_poll_header, run_every=POLL_S)(store, job)
        _actions(store, view)
        st.fragment(_poll_body, run_every=POLL_S)(store, job)
    _settings(view)
    _log(view)


def _poll_header(store: Store, job: str) -> None:
    _header(gnn.run_view(store, job))


def _poll_body(store: Store, job: str) -> None:
    view = gnn.run_view(store, job)
    if view.job.is_over:
        st.rerun()
    _body(store, view)


def _body(store: Store, view: gnn.RunView) -> None:
    if words := gnn.imported_words(view):
        note("info", words)
    if view.job.error:
        note("error", view.job.error)
    if not view.job.is_over:
        _progress(view)
    left, right = st.columns([1.55, 1], gap="medium")
    with left:
        measured.render_timeline(view)
        measured.render_learning(view)
    with right:
        measured.render_figures(view)
        if view.result:
            if not view.settings.device.startswith("sleep:"):
                versus.render_versus(store, view)
                versus.render_scaling(store, view)
            measured.render_conditions(view)


def _settings(view: gnn.RunView) -> None:
    with st.expander("Settings of this run"):
        rows: list[tuple[object, ...]] = [(field.title, field.text(view.settings), field.help) for field in FIELDS]
        st.html(table(("setting", "value", "meaning"), rows, numbers_from=3))


def _log(view: gnn.RunView) -> None:
    """Draw the end of the log, on request: reading it costs time."""
    if view.job.imported or not st.toggle("Log", key="gnn-log"):
        return
    with st.container(key="gnn-log-pane", height=260, border=True):
        st.html(f'<pre class="cg-log" tabindex="0">{escape_html(jobs.log_of(view.job.id) or "(empty)")}</pre>')


def _header(view: gnn.RunView) -> None:
    job = view.job
    state = chip(f"{JOB_MARKS[job.state]} {lowered(job.state)}", f"job-{job.state}")
    took = (job.ended_at or time.time()) - job.started_at if job.started_at else 0.0
    facts = f'<span class="cg-fact"><i>took</i> {gnn.duration(took)}</span>' if job.started_at else ""
    where = f'<span class="cg-fact">{escape_html(gnn.computed_on(view))}</span>'
    st.html(f'<div class="cg-header"><h1>{escape_html(job.title)}</h1>{state}{facts}{where}</div>')


def _actions(store: Store, view: gnn.RunView) -> None:
    """Draw the buttons, outside of every fragment: the page carries out what they note."""
    job, may = view.job, access.role() is access.AccessRole.OWNER
    with st.container(horizontal=True, vertical_alignment="center"):
        if not job.is_over:
            st.button("Stop", key="gnn-stop", shortcut="S", disabled=not may,
                      on_click=ui_state.noted(_stop, store, job.id))  # fmt: skip
        elif job.state is not JobState.DONE and not job.imported:
            st.button("Go on", key="gnn-go-on", type="primary", disabled=not may,
                      on_click=ui_state.noted(_go_on, store, job.id))  # fmt: skip
        if view.result:
            _download(store, job.id)
        st.page_link(places.gnn(), label="New run with these settings", query_params={"like": job.id})
        if view.result and view.result.settings.task is Task.TRAIN and view.result.settings.checkpoint:
            model = {"like": job.id, "task": str(Task.INFER), "checkpoint": view.result.settings.checkpoint}
            st.page_link(places.gnn(), label="Infer with this model", query_params=model)
        st.page_link(places.gnn(), label="All runs")


def _download(store: Store, job: str) -> None:
    # Imported late: the exports are needed only for this button.
    from cutegen_core.share.exports.run_file import recorded, run_text

    st.download_button(
        "Download", lambda: run_text(recorded(store, job)), f"{job}.gnn.json", "application/json", key="gnn-download",
        on_click="ignore", help="The whole run as one file, which this page opens on any machine.",
    )  # fmt: skip


def _stop(store: Store, job: str) -> None:
    access.require_owner()
    jobs.request_stop(store, job)


def _go_on(store: Store, job: str) -> None:
    access.require_owner()
    jobs.put_back(store, job)


def _progress(view: gnn.RunView) -> None:
    progress = view.progress
    if view.job.state is JobState.WAITING:
        note("info", "It waits for its turn: the engine runs one run at a time.")
    elif progress is None:
        quiet("Starting: its process loads PyTorch and the graph. This takes seconds.")
    else:
        st.progress(_share(progress), text=plain_label(gnn.progress_words(progress)))


def _share(progress: RunProgress) -> float:
    within = progress.done / progress.total if progress.total else 0.0
    if not progress.epochs:
        return min(1.0, within)
    return min(1.0, (max(0, progress.epoch - 1) + within) / progress.epochs)
