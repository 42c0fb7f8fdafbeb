"""Show the start page: new, imported, recorded and earlier sessions, and the system check."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from pages.components.compare_present import imported
from pages.components.problems import new_session
from pages.components.session.session_list import render_sessions
from pages.components.setup import doctor
from pages.components.shared import data, places
from pages.components.shared.texts import heading, note, quiet

store = data.store()
rows = views.session_rows(store)

st.html('<h1 class="cg-title">CuTeGen Workbench</h1>')
quiet("From a PyTorch reference to a fast, tested CuTe kernel, step by step, with you in charge.")
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
        render_sessions(rows)
        for session, why in views.unreadable_sessions(store).items():
            note("error", f"Session {session} cannot be read: {why}")
with machine, st.container(border=True):
    heading("Open a recorded session")
    imported.render_recordings(store)
with machine, st.container(border=True):
    heading(doctor.TITLE)
    doctor.render_doctor(only_what_matters=True)
    st.page_link(places.setup(), label="Full system check")
