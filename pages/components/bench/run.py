"""Draw one bench: state, progress, figures, charts, a line per problem, and what changed since another bench."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.job import JobState
from cutegen_core.records.wording import listed, lowered
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


def is_known(store: Store, job: str) -> bool:
    """Return whether there is such a bench."""
    return any(known.id == job for known in views.bench_jobs(store))


def render_bench(store: Store, job: str) -> None:
    """Draw the bench. While it waits or runs, a fragment polls its header and progress; the page is drawn again, with
    its charts, when a problem is done."""
    view = views.bench_view(store, job)
    lines = _lines(store, view)
    if view.job.is_over:
        _header(view, lines)
    else:
        st.fragment(_poll, run_every=POLL_S)(store, job, len(lines))
    _actions(store, view)
    if view.job.error:
        note("error", view.job.error)
    if lines:
        measured.render_figures(lines)
        if view.job.is_over:
            versus.render_versus(store, view, lines)
        measured.render_lines(lines)


def _poll(store: Store, job: str, drawn: int) -> None:
    view = views.bench_view(store, job)
    lines = _lines(store, view)
    if view.job.is_over or len(lines) != drawn:
        st.rerun()
    _header(view, lines)
    _progress(view, lines)


def _lines(store: Store, view: BenchView) -> list[BenchLine]:
    """Return the problems that are done; those of a running bench are read once, since a page polls."""
    if view.job.is_over:
        return list(views.bench_lines(store, view.job.id))
    known = ui_state.kept(f"bench-lines-{view.job.id}", list[BenchLine])
    known.extend(views.bench_lines(store, view.job.id, len(known)))
    return known


def _header(view: BenchView, lines: Sequence[BenchLine]) -> None:
    job, settings = view.job, view.settings
    state = chip(f"{JOB_MARKS[job.state]} {lowered(job.state)}", f"job-{job.state}")
    passed = sum(line.outcome is views.BenchOutcome.PASSED for line in lines)
    left = view.total - len(lines)
    facts = [
        ("passed", f"{passed} of {view.total}" + (f", {left} not done" if left else "") if lines else "none yet"),
        ("took", duration(sum(line.seconds for line in lines)) if lines else "–"),
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
    so_far = f"runs for {duration(time.time() - view.job.started_at)}"
    to_come = f"about {duration(left)} left" if left else ""
    said = [f"{len(lines)} of {view.total}", listed(view.running), so_far, to_come]
    st.progress(min(1.0, len(lines) / view.total), text=plain_label(" · ".join(filter(None, said))))
    if not lines:
        quiet("The first problem is being loaded, or its session runs: the start page lists it.")
