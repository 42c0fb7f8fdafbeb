"""Edit a problem: its form, the text beside it, the differences from the original, and saving it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from cutegen_core.problems import edit, library, read, saved
from cutegen_core.records.errors import CutegenError, ProblemError
from cutegen_core.records.problem import Problem, Workload
from cutegen_core.trajectory.store import Store
from cutegen_core.views.wording import KEEP_MINE, SANDBOXED, USE_OTHER
from pages.components.problems import listing, problem_draft
from pages.components.problems.existing_kernel import render_existing
from pages.components.problems.problem_draft import Editing
from pages.components.problems.problem_form import render_form
from pages.components.problems.problem_view import render_reference
from pages.components.shared import address, ui_state
from pages.components.shared.texts import chip, escape_html, heading, note, quiet

TEXT_HEIGHT_PX = 460


def render_state(store: Store, editing: Editing, *, may_edit: bool, is_open: bool) -> None:
    """Draw the title with Edit, Close and Reset, and the list of differences."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.html(_title(editing))
        if may_edit and not is_open:
            st.button("Edit", key="problem-edit", shortcut="E", on_click=ui_state.noted(address.go, edit="1"))
        if may_edit and is_open and editing.original:
            st.button("Close, keep the draft", key="problem-close", on_click=ui_state.noted(address.go, edit=None))
        if may_edit and editing.draft:
            st.button("Reset", key="problem-reset", on_click=ui_state.noted(_reset, store, editing),
                      help="Discards all edits")  # fmt: skip
    for line in _differences(editing):
        quiet(f"≠ {line}")
    if editing.is_outdated:
        note("warning", "The problem was changed after you began editing; your draft is based on the earlier version.")


def _title(editing: Editing) -> str:
    if editing.original is None:
        about = f"{editing.name}, as its text says; Save can name it otherwise" if editing.problem else ""
        return f'<h2 class="cg-problem">New problem</h2><div class="cg-quiet">{escape_html(about)}</div>'
    marks = chip("≠ edited", "warning", "The differences are listed below") if editing.changes else ""
    own = editing.original.origin
    return (
        f'<h2 class="cg-problem">{escape_html(editing.original.name)} {marks}</h2>'
        f'<div class="cg-quiet">{escape_html(editing.original.title)} · {escape_html(own)}</div>'
    )


def _differences(editing: Editing) -> tuple[str, ...]:
    """List the differences of a draft from its original, or of a saved problem from the one it was edited from."""
    if editing.draft or editing.original is None:
        return editing.changes
    name = read.edited_from(editing.original)
    first = next((e.problem for e in listing.known().entries if e.name == name and e.problem), None)
    if not name or first is None:
        return (f"edited from {name}, which is not available here",) if name else ()
    changes = edit.list_changes(first, editing.original)
    return (f"edited from {name}:", *changes) if changes else ()


def _reset(store: Store, editing: Editing) -> None:
    problem_draft.discard(store, editing)
    ui_state.forget(_refused(editing))


# -- the editor --------------------------------------------------------------------------------------------------------


def render_form_or_error(store: Store, editing: Editing) -> None:
    """Draw the fields of the draft, or say what is missing or wrong in its text."""
    if editing.problem is None:
        note("error", editing.error)
        quiet("The fields reappear when the text on the right can be read again.")
    elif not editing.problem.workloads:
        _sizes_wanted(store, editing, editing.problem)
    else:
        with st.container(key="problem-form"):
            render_form(editing.key, editing.problem, partial(problem_draft.take, store, editing.original))
            render_existing(store, editing)


def _sizes_wanted(store: Store, editing: Editing, problem: Problem) -> None:
    heading("Workloads")
    quiet(
        "No workloads yet. Replace the text on the right with your reference, then load it. It runs in its own "
        f"sandboxed process, {SANDBOXED}, at smaller and smaller sizes until some are small enough to test."
    )
    key = f"{editing.key}-failed"
    wanted = f"{editing.key}-wanted"
    st.button("Load and find test sizes", key="problem-derive", type="primary", shortcut="Ctrl+Enter",
              on_click=ui_state.noted(ui_state.put, wanted, "1"))  # fmt: skip
    if ui_state.text(wanted):  # noted, so that a drawing that another one interrupts does not lose the press
        _find_sizes(store, editing, problem, key)
        ui_state.forget(wanted)
        if not ui_state.text(key):
            st.rerun()
    failed = ui_state.text(key)
    if failed:
        note("error", failed)


def _find_sizes(store: Store, editing: Editing, problem: Problem, failed: str) -> None:
    """Write the sizes found into the draft, or the reason that there are none under the key `failed`."""
    ui_state.put(failed, "")
    with st.spinner("Running the reference at smaller sizes; this takes a few seconds …"):
        try:
            found = _derived(problem)
        except CutegenError as error:
            ui_state.put(failed, str(error))
        else:
            _keep_derived(store, editing, edit.with_workloads(editing.text, found.workloads))


def _keep_derived(store: Store, editing: Editing, text: str) -> None:
    """Save the text with the sizes found; if the draft has changed meanwhile, put it in the field and ask which to
    keep."""
    if not problem_draft.write(store, editing, text):
        ui_state.put(_refused(editing), text)


def _derived(problem: Problem) -> Problem:
    with library.Loader() as loader:
        return loader.complete(problem)


def failure(editing: Editing, lint_error: str) -> tuple[str, int]:
    """Return why the text cannot be read, loaded or linted, and the line."""
    said = editing.error or ui_state.text(f"{editing.key}-failed") or lint_error
    return said, editing.line or read.line_of(ProblemError(said), editing.origin)


def render_text(store: Store, editing: Editing, lint_error: str) -> None:
    """Draw the field with the file's text, and below it the line with an error."""
    heading("Reference, in KernelBench format")
    refused = ui_state.held(_refused(editing), str)
    text = editing.text if refused is None else refused
    key = ui_state.showing(f"{editing.key}-text", text)
    if refused is not None:
        _which(store, editing, key)
    st.text_area(
        "Problem source", text, key=key, height=TEXT_HEIGHT_PX, label_visibility="collapsed",
        on_change=ui_state.noted(_typed, store, editing, key),
    )  # fmt: skip
    quiet("Python with Model, get_inputs and get_init_inputs. Ctrl+Enter applies the text.")
    said, line = failure(editing, lint_error)
    if line:
        render_reference(editing.text, said, line, f"Error in line {line}")


def _typed(store: Store, editing: Editing, key: str) -> None:
    ui_state.put(f"{editing.key}-failed", "")
    text = ui_state.text(key).encode(errors="replace").decode()
    asked = ui_state.held(_refused(editing), str) is not None
    if asked or (
        not problem_draft.write(store, editing, text) and problem_draft.look(store, editing.original).text != text
    ):
        ui_state.put(_refused(editing), text)


def _which(store: Store, editing: Editing, key: str) -> None:
    """Ask which text to keep when the draft was changed meanwhile; neither is lost."""
    note("warning", "The problem was changed meanwhile, in a field or in another tab. Your text here is not saved yet.")
    with st.container(horizontal=True, gap="xsmall"):
        st.button(KEEP_MINE, key="problem-mine", on_click=ui_state.noted(_keep_mine, store, editing, key))
        st.button(USE_OTHER, key="problem-theirs", on_click=ui_state.noted(ui_state.forget, _refused(editing)))


def _keep_mine(store: Store, editing: Editing, key: str) -> None:
    ui_state.forget(_refused(editing))
    _typed(store, editing, key)


def _refused(editing: Editing) -> str:
    return f"{editing.key}-refused"


def mend(store: Store, editing: Editing, workloads: tuple[Workload, ...]) -> None:
    """Take over the workloads that the lint suggests; called by a click."""
    problem_draft.take(store, editing.original, lambda problem: replace(problem, workloads=workloads))
    address.go(edit="1")


# -- keeping it --------------------------------------------------------------------------------------------------------


def render_keep(store: Store, editing: Editing) -> None:
    """Draw the ways to keep the problem: under a name in the workspace, or as a download."""
    heading("Save this problem")
    own = saved.find(editing.name) is not None
    name = editing.name if own or editing.original is None else editing.edited_name
    key = ui_state.suggest(f"{editing.key}-name", name)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.text_input("Name", name, key=key, placeholder="my_problem", width=260)
        st.button("Save", key="problem-save", on_click=ui_state.noted(_save, store, editing, key))
        st.download_button(
            "Download", editing.text, f"{editing.name}.py", key="problem-download", on_click="ignore",
            disabled=editing.problem is None,
        )  # fmt: skip
        if editing.problem and editing.problem.existing:
            st.download_button(
                "Download the existing kernel", editing.existing, f"{editing.name}.cu",
                key="problem-download-existing", on_click="ignore",
            )  # fmt: skip
    quiet(f"Saved as a file in {saved.folder()}, to share or to run with `cutegen run --problem NAME`.")


def _save(store: Store, editing: Editing, key: str) -> None:
    name = ui_state.text(key).strip()
    text = editing.text
    try:
        if editing.original and name != editing.name and not read.edited_from(editing.original):
            text = edit.with_edited_from(text, editing.name)
        existing = editing.problem.existing if editing.problem else ""
        saved.save(name, text, library.built_in_files(), replace=name == editing.name, existing=existing)
    except CutegenError as error:
        ui_state.say(f"Not saved. {error}")
        return
    problem_draft.discard(store, editing)
    ui_state.forget(key)
    address.go(name=name, path=None, edit=None, new=None)


def render_remove(editing: Editing) -> None:
    """Draw the menu that removes a saved problem's file."""
    if editing.original is None or saved.find(editing.name) is None or editing.draft:
        return
    with st.popover("Remove …"):
        quiet("Removes the file. Sessions that were started on it keep their copy.")
        st.button("Remove this problem", key="problem-remove", on_click=ui_state.noted(_remove, editing.name))


def _remove(name: str) -> None:
    saved.remove(name)
    address.go(name=None, edit=None)
