"""Draw the stage rail of the shown step, again while the engine works, and rerun the page when the session changes."""

from __future__ import annotations

import time

import streamlit as st

from cutegen_core import views
from cutegen_core.trajectory.store import Store
from cutegen_core.views import RailStatus, RailStop, SessionView, StepView
from pages.components.session.exchanges import call_in_progress
from pages.components.shared import address, first_turn, quiet_polls
from pages.components.shared.texts import MARKS, escape_html, tooltip

RUNNING_POLL_S = 0.5
LIVE_CHARACTERS = 160
WAITING_POLL_S = 0.75
"""A waiting session changes only by a decision in another tab or on the command line."""


def render_rail(store: Store, view: SessionView, shown: StepView | None, *, stale: bool, ticket: int) -> None:
    """Draw the rail of one step, and rerun the page when the session has changed.

    Args:
        stale: whether a draft differs from the tested source, so that the verdicts are of another text.
        ticket: of a decision that the engine has not taken yet, else 0.
    """
    every = RUNNING_POLL_S if _busy(view) or ticket else WAITING_POLL_S
    watch = st.fragment(_watch, run_every=every)
    watch(store, view.id, _drawn(view), shown.step.number if shown else None, stale, ticket)


def _drawn(view: SessionView) -> tuple[int, ...]:
    """Return a value that changes with everything that the page shows.

    Studies arrive beside the steps and make no decision stale, so `meaning_seq` does not count them.
    """
    state = view.state
    return state.meaning_seq, len(state.studies), len(state.studies_wanted)


def _busy(view: SessionView) -> bool:
    return view.working or bool(view.state.studies_wanted)


def _watch(
    store: Store, session: str, drawn: tuple[int, ...], number: int | None, stale: bool, ticket: int
) -> None:  # fmt: skip
    address.agree()
    mark = store.mark()
    view = views.session_view(store, session)
    if _drawn(view) != drawn or (ticket and store.ticket(ticket).taken):
        first_turn.give_way()
        st.rerun()
    step = next((s for s in view.state.steps if s.number == number), None)
    stops = "".join(_stop(stop, stale) for stop in views.rail(view.state, step))
    live = _line(store, view) if _busy(view) else "waiting for the engine to take your decision" if ticket else ""
    st.html(f'<div class="cg-rail" role="list">{stops}<span class="cg-live">{escape_html(live)}</span></div>')
    if not _busy(view) and not ticket:
        quiet_polls.rest(store, mark)


def _line(store: Store, view: SessionView) -> str:
    """Write what the engine is doing; a model's text itself streams into the middle of the page."""
    call = call_in_progress(view.state)
    if call:
        return f"{call.model} is writing: {len(view.live):,} characters"
    said = view.live.splitlines() or [views.engine_line(store)]
    return said[-1].strip()[-LIVE_CHARACTERS:]


def _stop(stop: RailStop, draft: bool) -> str:
    stale = draft and stop.name not in ("plan",) and stop.status in (RailStatus.PASSED, RailStatus.FAILED)
    word = "stale" if stale else str(stop.status)
    said = "not reached" if stop.status is RailStatus.FRESH else word
    detail = _seconds(stop)
    name = escape_html(stop.name.upper())
    return (
        f'<span class="cg-stop cg-is-{escape_html(word)}" role="listitem" title="{tooltip(stop.note)}">'
        f"<b>{MARKS[word]} {name}</b> <i>{escape_html(said)}{escape_html(detail)}</i></span>"
    )


def _seconds(stop: RailStop) -> str:
    if stop.status is RailStatus.RUNNING and stop.since:
        return f" {max(0.0, time.time() - stop.since):.1f} s"
    if stop.note and stop.status is not RailStatus.FAILED and len(stop.note) < 24:
        return f": {stop.note}"
    return f" {stop.seconds:.2f} s" if stop.seconds else ""
