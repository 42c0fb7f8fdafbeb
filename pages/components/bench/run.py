"""Draw one bench: state, progress, figures, charts, a line per problem, and what changed since another bench."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.job import JobState
from cutegen_core.records.wording import lowered
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import BenchLine, BenchView
from cutegen_core.views.gnn import duration
from pages.components.access import access
from pages.components.bench import measured, versus
from pages.components.shared import places, ui_state
from pages.components.shared.marks import JOB_MARKS
from pages.components.shared.texts import chip, escape_html, note, plain_label, quiet

POLL_S = 1.0


def render_bench(store: Store, job: str) -> None:
    """Draw the bench; while it waits or runs, fragments poll what changes. The buttons between them stay."""
    view = views.bench_view(store, job)
    if view.job.is_over:
        _header(view, _lines(store, view))
        _actions(store, view)
        _body(store, view)
    else:
        st.fragment(_poll_header, run_every=POLL_S)(store, job)
        _actions(store, view)
        st.fragment(_poll_body, run_every=POLL_S)(store, job)


def _poll_header(store: Store, job: str) -> None:
    view = views.bench_view(store, job)
    _header(view, _lines(store, view))


def _poll_body(store: Store, job: str) -> None:
    view = views.bench_view(store, job)
    if view.job.is_over:
        st.rerun()
    _body(store, view)


def _lines(store: Store, view: BenchView) -> list[BenchLine]:
    """Return the problems that are done; those of a running bench are read once, since a page polls."""
    if view.job.is_over:
        return list(views.bench_lines(store, view.job.id))
    known = ui_state.kept(f"bench-lines-{view.job.id}", list[BenchLine])
    known.extend(views.bench_lines(store, view.job.id, len(known)))
    return known


def _body(store: Store, view: BenchView) -> None:
    lines = _lines(store, view)
    if view.job.error:
        note("error", view.job.error)
    if not view.job.is_over:
        _progress(view, lines)
    if lines:
        measured.render_figures(lines)
        if view.job.is_over:
            versus.render_versus(store, view, lines)
        measured.render_lines(lines)


def _header(view: BenchView, lines: Sequence[BenchLine]) -> None:
    job, settings = view.job, view.settings
    state = chip(f"{JOB_MARKS[job.state]} {lowered(job.state)}", f"job-{job.state}")
    took = (job.ended_at or time.time()) - job.started_at if job.started_at else 0.0
    passed = sum(line.outcome is views.BenchOutcome.PASSED for line in lines)
    facts = [
        ("passed", f"{passed} of {len(lines)}" if lines else "none yet"),
        ("took", duration(took) if job.started_at else "–"),
        ("proposer", f"{settings.answered_by}: {settings.model}" if settings.model else str(settings.answered_by)),
        ("steps", f"at most {settings.max_steps}"),
        ("target", settings.arch or "this machine's"),
    ]
    said = "".join(f'<span class="cg-fact"><i>{name}</i> {escape_html(value)}</span>' for name, value in facts)
    st.html(f'<div class="cg-header"><h1>{escape_html(job.title)}</h1>{state}{said}</div>')


def _actions(store: Store, view: BenchView) -> None:
    """Draw the buttons, outside of every fragment: the page carries out what they note."""
    job, may = view.job, access.role() is access.AccessRole.OWNER
    with st.container(horizontal=True, vertical_alignment="center"):
        if not job.is_over:
            st.button("Stop", key="bench-stop", shortcut="S", disabled=not may,
                      on_click=ui_state.noted(_stop, store, job.id))  # fmt: skip
        elif job.state is not JobState.DONE:
            st.button("Go on", key="bench-go-on", type="primary", disabled=not may,
                      on_click=ui_state.noted(_go_on, store, job.id))  # fmt: skip
        st.page_link(places.bench(), label="New bench with these settings", query_params={"like": job.id})
        st.page_link(places.bench(), label="All benches")


def _stop(store: Store, job: str) -> None:
    access.require_owner()
    jobs.request_stop(store, job)


def _go_on(store: Store, job: str) -> None:
    access.require_owner()
    jobs.put_back(store, job)


def _progress(view: BenchView, lines: Sequence[BenchLine]) -> None:
    if view.job.state is JobState.WAITING:
        note("info", "It waits for its turn: the engine runs one bench at a time.")
        return
    left = views.seconds_left(view, lines)
    said = [f"{len(lines)} of {view.total}", ", ".join(view.running), f"about {duration(left)} left" if left else ""]
    st.progress(min(1.0, len(lines) / view.total), text=plain_label(" · ".join(filter(None, said))))
    if not lines:
        quiet("The first problem is loaded; its session can be opened from the start page.")
