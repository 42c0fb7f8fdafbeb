"""Give a problem its existing kernel: paste it, upload it, read its launches, complete its plan, or remove it."""

from __future__ import annotations

import re
from functools import partial

import streamlit as st

from cutegen_core.kernel.kernel_file import decode, parse
from cutegen_core.records.errors import CutegenError, KernelFileError
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.store import Store
from pages.components.editor.plan_form import render_plan_fields
from pages.components.problems import problem_draft
from pages.components.problems.problem_draft import Editing
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, note, quiet

TEXT_HEIGHT_PX = 300
_HOLE = re.compile(r"# (HOLE_\d+: [^\n]*)")


def render_existing(store: Store, editing: Editing) -> None:
    """Draw the kernel's text, the form of its launch plan, and the ways to give another or none."""
    heading("Existing kernel")
    key = f"{editing.key}-existing"
    write = partial(_write, store, editing)
    field = ui_state.showing(key, editing.existing)
    st.text_area(
        "Existing kernel", editing.existing, key=field, height=TEXT_HEIGHT_PX if editing.existing else "content",
        label_visibility="collapsed", placeholder="the kernel file that solves the problem today, if there is one",
        on_change=ui_state.noted(_typed, write, field),
    )  # fmt: skip
    upload = st.file_uploader("Or upload a .cu", ["cu"], key=f"{key}-upload", max_upload_size=1)
    if upload is not None and ui_state.first_time(f"{key}-taken", upload.file_id):
        try:
            write(decode(upload.getvalue()))
        except KernelFileError as error:
            ui_state.say(f"Not taken. {error}")
        st.rerun()
    if not editing.existing:
        quiet("It is tested, timed with every candidate as the one to beat, and part of the problem.")
        return
    _judge(key, editing, write)
    st.button("Remove the existing kernel", key=f"{key}-remove", on_click=ui_state.noted(write, ""))


def _judge(key: str, editing: Editing, write: problem_draft.WriteText) -> None:
    """Say why the text is no kernel file and offer to read its host code, or draw its launch plan as fields."""
    try:
        kernel = parse(editing.existing)
    except KernelFileError as error:
        note("warning", str(error))
        if editing.problem and "__global__" in editing.existing:
            reading = ui_state.noted(_import, editing, write)
            st.button("Make a launch plan of its host code", key=f"{key}-import", on_click=reading)
        return
    for hole in _HOLE.findall(editing.existing):
        note("warning", f"Complete the launch plan: {hole}")
    with st.expander(f"Launch plan · {counted(len(kernel.launches), 'launch')}", key=f"{key}-plan"):
        render_plan_fields(key, kernel, lambda edit: write(edit(editing.existing)))


def _import(editing: Editing, write: problem_draft.WriteText) -> None:
    """Take over the kernel file that is made of the plain `.cu`; its reference runs for that, for a few seconds."""
    # Imported late: the readers are needed only for this click.
    from cutegen_core.share.imports.plain_cu import import_kernel

    assert editing.problem is not None
    try:
        made = import_kernel(editing.existing, f"{editing.name}.cu", editing.problem)
    except CutegenError as error:
        ui_state.say(f"Not read. {error}")
        return
    write(made.text)
    left = f" {counted(len(made.holes), 'part')} of the plan must be completed by hand." if made.holes else ""
    ui_state.say(f"Read its launches.{left} {'; '.join(made.notes)}", "warning" if made.holes else "ok")


def _typed(write: problem_draft.WriteText, key: str) -> None:
    write(ui_state.text(key).encode(errors="replace").decode())


def _write(store: Store, editing: Editing, kernel: str) -> None:
    problem_draft.set_existing(store, editing.original, kernel)
