"""Show the log of the running stages, in the evidence's place until there is evidence; the rail counts the seconds."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.trajectory.state import Phase
from cutegen_core.trajectory.store import Store
from cutegen_core.views import RailStatus, SessionView, StepView
from pages.components.shared import quiet_polls
from pages.components.shared.texts import MARKS, escape_html, heading

POLL_S = 0.5
HEIGHT_PX = 260


def is_running(view: SessionView, shown: StepView) -> bool:
    """Tell whether the shown step is going through the stages."""
    state = view.state
    return view.working and shown.step is state.open_step and state.phase in (Phase.PROPOSED, Phase.TESTING)


def render_live_log(store: Store, view: SessionView) -> None:
    """Draw a line per finished stage and the log of the running one, in a fragment that follows what is written."""
    st.fragment(_log, run_every=POLL_S)(store, view.id)


def _log(store: Store, session: str) -> None:
    mark = store.mark()
    view = views.session_view(store, session)
    running = next((stop for stop in view.rail if stop.status is RailStatus.RUNNING), None)
    heading(f"{running.name} · running" if running else "Waiting for the next stage")
    lines = [f"{MARKS[s.status]} {s.name} {s.status} {s.seconds:.2f} s" for s in view.rail if s.seconds is not None]
    if running:
        lines += [f"{MARKS['running']} {running.name}", *view.live.splitlines()]
    with st.container(key="live-log", height=HEIGHT_PX, border=True, autoscroll=True):
        st.html(f'<pre class="cg-log">{escape_html(chr(10).join(lines))}</pre>')
    quiet_polls.rest(store, mark)
