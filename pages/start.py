"""Show the start page: new, imported, recorded and earlier sessions, and the system check.

Until a session was started here, the recorded ones come first, each with a picture.
"""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from pages.components.compare_present import imported
from pages.components.problems import new_session
from pages.components.setup import doctor
from pages.components.shared import data, places
from pages.components.shared.texts import heading, note, quiet
from pages.components.start.session_list import render_sessions

store = data.store()
rows = views.session_rows(store)

st.html('<h1 class="cg-title">CuTeGen Workbench</h1>')
quiet("From a PyTorch reference to a fast, tested CuTe kernel, step by step, with you in charge.")
first_run = not any(row.origin == "here" for row in rows)
if first_run:
    with st.container(border=True):
        heading("Look first: recorded sessions, step by step")
        imported.render_gallery(store)
ways, machine = st.columns([3, 2], gap="medium")
with ways:
    with st.container(border=True):
        heading("Start a new session")
        new_session.render_new_session(store)
    with st.container(border=True):
        heading("Load a KernelBench file or folder")
        new_session.render_path()
    with st.container(border=True):
        heading("Import a recording or results, read-only")
        imported.render_import(store)
    with st.container(border=True):
        heading(f"Continue a session · {len(rows)}")
        render_sessions(rows, views.bench_sessions(store))
        for session, why in views.unreadable_sessions(store).items():
            note("error", f"Session {session} cannot be read: {why}")
if not first_run:
    with machine, st.container(border=True):
        heading("Open a recorded session")
        imported.render_recordings(store)
with machine, st.container(border=True):
    heading(doctor.TITLE)
    doctor.render_doctor(only_what_matters=True)
    st.page_link(places.setup(), label="Full system check")
