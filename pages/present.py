"""Present a session, one stop at a time. `?id=` the session, `?step=` start, a number or result, `?pane=`."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.share import slides
from cutegen_core.views.wording import no_step
from pages.components.compare_present import imported, present
from pages.components.shared import address, data, places
from pages.components.shared.texts import heading, note, quiet

store = data.store()
session = address.get("id")
if not session:
    sessions, recorded = st.columns([3, 2], gap="medium")
    with sessions, st.container(border=True):
        heading("Present a session")
        present.render_choice(views.session_rows(store))
        quiet("One step at a time: arrow keys step, Space plays, a running session is followed. Nothing is executed.")
    with recorded, st.container(border=True):
        heading("Recorded sessions")
        imported.render_recordings(store)
    st.stop()
deck = slides.deck(views.session_view(store, session))
wanted = address.get("step")
at = present.stop_of(deck, wanted)
if at is None:
    note("error", no_step(session, wanted, len(deck.view.steps)))
    st.page_link(places.present(), label="Present from the beginning", query_params={"id": session})
    st.stop()
named = address.get("pane")
pane = next((p for p in present.PANES if p == named), present.PANES[0])
present.render_slide(store, deck, deck.stops[at], pane)
present.render_controls(deck, at, pane)
present.render_watch(store, deck, at)
