"""Export the session: a menu of every format, and below it the files that were asked for.

A file is written by the engine, in a process of its own (`share.exporting`); the page only asks for it, and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from cutegen_core.records import as_json
from cutegen_core.records.export import KEPT_DAYS, ExportSettings
from cutegen_core.records.job import JobKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.session import export_files
from pages.components.shared import data, places, ui_state
from pages.components.shared.texts import quiet

if TYPE_CHECKING:
    from cutegen_core.share.exports import Format

_FORMAT = "export-format"


def render_export(store: Store, view: SessionView) -> None:
    """Draw the menu."""
    # Imported late: the formats need templates and compilers, the page does not.
    from cutegen_core.share.exports import FORMATS

    with st.popover("Export", key="export", width="stretch"):
        st.page_link(places.present(), label="Present this session", query_params={"id": view.id})
        is_owner = access.role() is access.AccessRole.OWNER  # exporting a kernel runs its reference and the compiler
        offered = [key for key, found in FORMATS.items() if is_owner or found.of_session]
        st.selectbox("Format", offered, key=_FORMAT, format_func=lambda key: f"{key}: {FORMATS[key].title}", width=420)
        chosen = FORMATS[ui_state.text(_FORMAT)]
        what = "The whole session." if chosen.of_session else "The best kernel."
        compiles = " nvcc compiles it first, if installed: a minute or two." if chosen.compiles else ""
        quiet(f"{what}{compiles} You can go on meanwhile, and ask for several; files are kept {KEPT_DAYS} days. No "
              "format contains keys.")  # fmt: skip
        nothing = view.state.best is None and not chosen.of_session and not view.state.settings.imported
        if nothing:
            quiet("No kernel of this session was promoted yet.")
        st.button("Create file", key="export-make", disabled=nothing, on_click=ui_state.noted(_ask, view, offered))
        export_files.render_files(store, view)


def _ask(view: SessionView, offered: Sequence[str]) -> None:
    """Ask the engine for a file in the chosen format, unless the same is on its way or there.

    The format is read now: it may have been chosen since the button was drawn.
    """
    from cutegen_core.share.exports import FORMATS

    chosen = ui_state.text(_FORMAT)
    if chosen not in offered:
        return
    store = data.requests_store()
    wanted = ExportSettings(view.id, view.state.seq, chosen, _file_name(view, FORMATS[chosen]))
    if not any(file.settings == wanted and file.is_good for file in export_files.files_of(store, wanted.session)):
        jobs.create(store, JobKind.EXPORT, wanted.name, as_json.dump(wanted))


def _file_name(view: SessionView, chosen: Format) -> str:
    """Return the name of the download; archives of two formats must not unpack into the same folder."""
    problem = view.state.settings.problem_name
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in problem)
    form = f"-{chosen.key}" if chosen.is_archive else ""
    return f"{safe}-{view.id}{form}{chosen.ending}"
