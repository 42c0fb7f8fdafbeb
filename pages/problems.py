"""Show and edit problems, and start sessions on them: the saved and built-in ones or those of a file or folder
(`?path=`), one in detail (`?name=`), as a draft (`?edit=1`), or a new one (`?new=1`)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from cutegen_core.problems.library import FolderListing
from cutegen_core.views.wording import SANDBOXED
from pages.components.access import access
from pages.components.problems import problem_draft, problem_editor, problem_view
from pages.components.problems.listing import agree_to, known, load_path, own, waits_for_click
from pages.components.problems.new_session import render_new_session
from pages.components.problems.problem_lint import render_lint
from pages.components.problems.who_proposes import BUILT_IN, render_ask_about, render_known
from pages.components.shared import address, data, ui_state
from pages.components.shared.texts import heading, note, quiet, show_hidden

store, may_edit = data.store(), access.role() is access.AccessRole.OWNER
path, is_new = address.get("path"), may_edit and bool(address.get("new"))
is_open = is_new or (may_edit and bool(address.get("edit")))
choice, detail, beside = st.columns([0.75, 2, 1.35] if is_open else [0.9, 1.5, 1.5], gap="medium")
with choice:
    with st.form("load", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("KernelBench file or folder", path, key="problems-path", placeholder="/path/to/level1")
        if st.form_submit_button("Load", key="problems-load"):
            asked, path = path, ui_state.text("problems-path").strip()
            agree_to(path)
            address.go(path=path or None, **({} if path == asked else {"name": None, "edit": None, "new": None}))
            address.agree()
    if may_edit:
        st.button("New problem", key="problem-new", shortcut="N", on_click=ui_state.noted(address.go, new="1"))
    waits = bool(path) and waits_for_click(path)
    listing = FolderListing(()) if waits else load_path(path) if path else known()
    where = show_hidden(Path(path).name or path) if path else "Problems"
    heading(f"{where} · {'not loaded' if waits else f'{listing.loaded} of {listing.total} loaded'}")
    render_ask_about([found.problem for found in listing.entries if found.problem and found.problem.workloads])
    entry = problem_view.choose_entry(listing, 0 if path else own().total, partial(problem_draft.is_kept, store))
    if path and not waits:
        quiet(f"Each file ran in its own sandboxed process, {SANDBOXED}.")
with detail:
    if waits:
        note("info", f"This link asks to load {show_hidden(path)}. Loading runs its Python files, each {SANDBOXED}.")
        quiet("Press Load if you want that.")
    elif entry is None and not is_new:
        problem_view.render_nothing(listing)
    elif entry and entry.problem is None and not is_new:
        note("error", entry.error)
        quiet(str(entry.path))
    else:
        editing = problem_draft.look(store, None if is_new or entry is None else entry.problem)
        problem_editor.render_state(store, editing, may_edit=may_edit, is_open=is_open)
        if is_open:
            problem_editor.render_form_or_error(store, editing)
        elif editing.problem:
            problem_view.render_problem(editing.problem)
        failed = ""
        if editing.problem:
            failed = render_lint(editing.problem, partial(problem_editor.mend, store, editing))
        if is_open and editing.startable:
            problem_editor.render_keep(store, editing)
        if editing.startable:
            with st.container(border=True):
                heading("Start a session with these edits" if editing.changes else "Start a session")
                problem_view.render_faster(editing.startable, edited=bool(editing.changes))
                if editing.startable.origin == BUILT_IN:
                    render_known(editing.startable)
                render_new_session(store, editing.startable)
        problem_editor.render_remove(editing)
        with beside:
            if is_open:
                with st.container(key="problem-text"):
                    problem_editor.render_text(store, editing, failed)
            else:
                problem_view.render_reference(editing.text, *problem_editor.failure(editing, failed))
