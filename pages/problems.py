"""Problems: built-in, or those of a file or folder (`?path=`); one in detail (`?name=`), to start a session from."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.components import data, problem_view, ui_state
from pages.components.listing import built_in, load_path
from pages.components.new_session import render_new_session
from pages.components.texts import heading, note, quiet

path = st.query_params.get("path", "")
choice, detail = st.columns([1, 1.7], gap="medium")
with choice:
    with st.form("load", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        ui_state.put_once("problems-path", path)
        typed = st.text_input("KernelBench file or folder", key="problems-path", placeholder="/path/to/level1")
        if st.form_submit_button("Load", key="problems-load"):
            st.query_params.from_dict({"path": typed.strip()} if typed.strip() else {})
            path = typed.strip()
    listing = load_path(path) if path else built_in()
    where = f"{Path(path).name or path}" if path else "Built-in"
    heading(f"{where} · {listing.loaded} of {listing.total} loaded")
    entry = problem_view.choose_entry(listing)
    if path:
        quiet("Each file was run in a process of its own, limited, without network and keys.")
with detail:
    if entry is None:
        note("info", "No Python file is there.")
    elif entry.problem is None:
        note("error", entry.error)
        quiet(str(entry.path))
    else:
        problem_view.render_problem(entry.problem)
        with st.container(border=True):
            heading("Start a session from here")
            render_new_session(data.store(), entry.problem)
