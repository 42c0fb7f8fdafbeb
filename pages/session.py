"""One session: take up what was clicked, read the store, draw. `?id=` the session, `?step=`, `?pane=`, `?view=`."""

from __future__ import annotations

import time

import streamlit as st

from cutegen_core import sessions, views
from cutegen_core.decision import Decision, DecisionKind
from cutegen_core.errors import StaleDecisionError
from cutegen_core.event import SessionState
from cutegen_core.session_state import Phase
from cutegen_core.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components import address, data, editor, hunk_view, places, ui_state
from pages.components.decide import render_decide
from pages.components.evidence import render_evidence
from pages.components.exchanges import render_stream
from pages.components.header import render_header
from pages.components.prompt_gate import render_prompt_gate
from pages.components.rail import render_rail
from pages.components.reply import render_reply_gate
from pages.components.session_list import render_sessions
from pages.components.source import render_source
from pages.components.texts import note
from pages.components.timeline import render_timeline

# How long a click waits for the engine, so that this tab shows the effect at once.
ENGINE_ANSWERS_S = 0.5
# And for what takes the engine no time after that, such as opening the next step: the first picture shows it already.
NEXT_STEP_S = 0.1
STAYS = (
    DecisionKind.AUTONOMY, DecisionKind.STOP, DecisionKind.BUDGET, DecisionKind.STANDING, DecisionKind.MEMORY,
    DecisionKind.PROFILE, DecisionKind.ABLATE,
)  # fmt: skip
"""Decisions after which the same step stays on the screen."""
KEPT = "A draft you were typing is still there."


def submit(store: Store, session: str, decision: Decision, text_key: str) -> None:
    """Hands a decision over; a refusal is said and what was typed stays."""
    tab = ui_state.tab()
    try:
        ticket = sessions.decide(store, session, decision, wait_s=ENGINE_ANSWERS_S)
    except StaleDecisionError as refusal:
        tab.last, tab.notice = None, f"{refusal} {KEPT}"
        return
    tab.last, tab.submitted = decision, ui_state.Submitted(ticket, decision.source or "")
    if decision.kind in (DecisionKind.REDIRECT, DecisionKind.REJECT):
        ui_state.put(text_key, "")
    if decision.kind not in STAYS:
        address.go(step=None, **hunk_view.closed())
        address.agree()
        await_next_step(store, session)


def await_next_step(store: Store, session: str) -> None:
    """Returns at once where a model is asked: that takes long, and the page shows it."""
    deadline = time.monotonic() + NEXT_STEP_S
    while time.monotonic() < deadline:
        view = views.session_view(store, session)
        if not view.working or view.state.phase not in (Phase.IDLE, Phase.GENERATING) or view.state.lost_call:
            return
        time.sleep(0.01)


def unanswered(store: Store, session: str) -> int:
    """Ticket of this tab's last decision while the engine has yet to look at it, else 0. A late refusal is said."""
    tab = ui_state.tab()
    last = tab.submitted
    ticket = store.ticket(last.ticket) if last else None
    if last is None or ticket is None:
        return 0
    if not ticket.taken:
        return last.ticket
    tab.submitted = None
    if ticket.refusal:
        tab.last, tab.notice = None, f"{ticket.refusal} {KEPT}"
    elif last.source:
        editor.taken(store, session, last.source)
    return 0


def shown_step(store: Store, view: SessionView) -> StepView | None:
    """The step in the URL, else the last one; of a session that is over, the one it came to."""
    wanted = st.query_params.get("step", "")
    if not wanted:
        last = views.outcome_step(view.state) or view.state.step
        return views.step_view(store, view.id, last.number) if last else None
    if not any(str(row.number) == wanted for row in view.steps):
        note("error", f"Session {view.id} has no step “{wanted}”; it has {len(view.steps)}.")
        st.page_link(places.session(), label="Show the last step", query_params={"id": view.id})
        st.stop()
    return views.step_view(store, view.id, int(wanted))


def is_last(view: SessionView, shown: StepView) -> bool:
    return view.state.step is not None and shown.step.number == view.state.step.number


address.agree()
store = data.store()
session = st.query_params.get("id", "")
if not session:
    note("info", "No session is named in the address. Choose one, or start one.")
    render_sessions(views.session_rows(store))
    st.page_link(places.start(), label="To the start page")
    st.stop()
views.session_view(store, session)  # says so when there is none
ui_state.carry_out()
address.agree()
for decision, text_key in ui_state.take_decisions():
    submit(store, session, decision, text_key)
view = views.session_view(store, session)
ticket = unanswered(store, session)
shown = shown_step(store, view)

render_header(store, view)
with st.container():  # always there, so that what is below keeps its place
    if notice := ui_state.take_notice():
        note("warning", notice)
    if view.state.status in (SessionState.INTERRUPTED, SessionState.EXHAUSTED):
        note("warning", view.state.reason)
render_rail(store, view, shown, stale=editor.has_changes(store, session), ticket=ticket)
left, middle, right = st.columns([1.2, 2.45, 1.95], gap="small")
with left:
    render_timeline(store, view, shown.step.number if shown else None)
with middle:
    if editor.is_open(store, view):
        editor.render_editor(store, view, shown)
    else:
        with st.container():
            if shown is None or is_last(view, shown):
                render_reply_gate(store, view)
                render_prompt_gate(store, view)
                render_stream(store, view)
        if shown:
            render_source(store, view, shown)
with right:
    if shown:
        render_evidence(store, view, shown)
render_decide(store, view, shown)
