"""Export the session: a menu of every format. A file is made on request, then offered as a download."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from cutegen_core.records.errors import CutegenError
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.shared import places, ui_state
from pages.components.shared.texts import note, plain_label, quiet


class File(NamedTuple):
    """An exported file: its bytes, and how it was checked."""

    name: str
    data: bytes
    checked: str
    note: str


def render_export(store: Store, view: SessionView) -> None:
    """Draw the menu."""
    # Imported late: the formats need templates and compilers, the page does not.
    from cutegen_core.share.exports import FORMATS

    with st.popover("Export", key="export", width="stretch"):
        st.page_link(places.present(), label="Present this session", query_params={"id": view.id})
        is_owner = access.role() is access.AccessRole.OWNER  # exporting a kernel runs its reference and the compiler
        offered = [key for key, found in FORMATS.items() if is_owner or found.of_session]
        chosen = st.selectbox(
            "Format", offered, key="export-format", format_func=lambda key: f"{key}: {FORMATS[key].title}", width=420
        )
        whole = [key for key, found in FORMATS.items() if found.of_session]
        compiled = [key for key, found in FORMATS.items() if found.compiles]
        quiet(
            f"{' and '.join(whole)} export the whole session at once. The others export the best kernel; for "
            f"{', '.join(compiled)} nvcc compiles it first, if installed, which takes a minute or two. No format "
            "contains keys."
        )
        asked, failed = f"export-made-{view.id}", f"export-failed-{view.id}"
        request = f"{chosen} {view.state.seq}"
        st.button("Create file", key="export-make", on_click=ui_state.noted(_ask, asked, failed, request))
        if ui_state.text(asked) == request:
            _make(store, view, chosen, failed)


def _ask(asked: str, failed: str, request: str) -> None:
    ui_state.put(asked, request)
    ui_state.forget(failed)


def _make(store: Store, view: SessionView, chosen: str, failed: str) -> None:
    """Draw the download or the error; a failed export runs again on the next click, not at every drawing."""
    if not ui_state.text(failed):
        try:
            _offer(_made(store, view.id, view.state.seq, view.state.settings.problem_name, chosen))
            return
        except CutegenError as error:
            ui_state.put(failed, str(error))
    note("error", ui_state.text(failed))


def _offer(file: File) -> None:
    said = {"compiled": f"Compiled. {file.note}", "n/a": file.note}.get(file.checked, file.note or file.checked)
    note("ok" if file.checked != "not compiled here" else "info", said)
    st.download_button(
        plain_label(f"Download {file.name}"),
        file.data,
        file.name,
        key="export-download",
        type="primary",
        on_click="ignore",
    )


@st.cache_data(show_spinner="Creating the file …", max_entries=8)
def _made(_store: Store, session: str, seq: int, problem: str, chosen: str) -> File:
    """Make the file, again for every `seq` of the session. A CutegenError is not kept, since its cause may be fixed."""
    from cutegen_core.share.exports import FORMATS, export

    with tempfile.TemporaryDirectory(prefix="cutegen-export-") as folder:
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in problem)
        output = Path(folder) / f"{safe}-{session}{FORMATS[chosen].ending}"
        exported = export(_store, session, chosen, output)
        return File(output.name, exported.path.read_bytes(), exported.checked, exported.note)
