"""Show one session: carry out clicks, read the store, draw. `?id=` the session, `?step=`, `?pane=`, `?view=`."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from cutegen_core.views.wording import no_step
from pages.components.editor import drafts, editor
from pages.components.roles.answer_gate import render_answer_gate
from pages.components.roles.cards import render_cards
from pages.components.session import answers
from pages.components.session.centre import room
from pages.components.session.centre.no_kernel import render_no_kernel
from pages.components.session.centre.source import render_source
from pages.components.session.decide import edits_answer, render_decide, render_editing
from pages.components.session.evidence.evidence import render_evidence
from pages.components.session.evidence.outcome import render_outcome
from pages.components.session.exchanges import render_stream
from pages.components.session.header import render_header
from pages.components.session.prompt_gate import render_prompt_gate
from pages.components.session.rail import render_rail
from pages.components.session.reply import render_reply_gate
from pages.components.session.sides import render_sides
from pages.components.session.timeline import render_timeline
from pages.components.shared import data, places
from pages.components.shared.texts import heading, note
from pages.components.start.session_list import render_sessions
from pages.components.start.tour import render_tour


def shown_step(store: Store, view: SessionView) -> StepView | None:
    """Return the step in the URL, else the last one, or the result of a finished session."""
    wanted = st.query_params.get("step", "")
    if not wanted:
        last = views.outcome_step(view.state) or view.state.step
        return views.step_view(store, view.id, last.number) if last else None
    if not any(str(row.number) == wanted for row in view.steps):
        note("error", no_step(view.id, wanted, len(view.steps)))
        st.page_link(places.session(), label="Show the last step", query_params={"id": view.id})
        st.stop()
    return views.step_view(store, view.id, int(wanted))


def is_last(view: SessionView, shown: StepView) -> bool:
    return view.state.step is not None and shown.step.number == view.state.step.number


store = data.store()
session = st.query_params.get("id", "")
if not session:
    note("info", "No session selected. Choose one below, or start a new one.")
    render_sessions(views.session_rows(store), views.bench_sessions(store))
    st.page_link(places.start(), label="Go to the start page")
    st.stop()
ticket = answers.unanswered(session)
view = views.session_view(store, session)
shown = shown_step(store, view)
draft = drafts.shown_draft(store, view, shown)

render_header(store, view)
with st.container():  # always there, so that what is below keeps its place
    if view.state.status in (SessionState.INTERRUPTED, SessionState.EXHAUSTED):
        note("warning", view.state.reason)
    if shown:
        render_outcome(view, shown)
render_rail(store, view, shown, stale=draft is not None and drafts.is_changed(store, view.id, draft), ticket=ticket)
if shown:
    render_cards(store, view, shown)
newest = shown is None or is_last(view, shown)
space = room.of(view, shown, editing=draft is not None)
render_sides(view, shown, evidence=len(space.columns) > 2)
left, middle, *right = st.columns(space.columns, gap="small")
with left, st.container(key="side-steps"):
    render_timeline(store, view, shown.step.number if shown else None, chart=space.chart)
with middle, st.container(key="side-kernel"):
    if draft is not None:
        editor.render_editor(store, view, shown, draft)
    else:
        with st.container():
            if newest:
                render_reply_gate(store, view)
                render_prompt_gate(store, view)
                render_answer_gate(store, view)
        if shown:
            render_source(store, view, shown, wide=not right)
        else:
            render_no_kernel(store, view, shown)
if right:
    with right[0], st.container(key="side-evidence"):
        if space.reference:
            room.draw_reference(view)
        if newest:
            render_stream(store, view)
        if shown and space.evidence:
            if draft is not None:
                heading(f"Evidence of step {shown.step.number}, before your edit")
            render_evidence(store, view, shown)
if draft is not None or edits_answer(store, view, shown):
    render_editing(store, view, shown, draft)
else:
    render_decide(store, view, shown)
render_tour(view)
