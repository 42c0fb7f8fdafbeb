"""List the runs, and open those that were recorded elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import streamlit as st

from cutegen_core.records.wording import lowered
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from pages.components import ASSETS
from pages.components.access import access
from pages.components.shared import places
from pages.components.shared.file_choice import render_file_choice
from pages.components.shared.marks import JOB_MARKS
from pages.components.shared.texts import heading, plain_label, quiet, when

if TYPE_CHECKING:
    from cutegen_core.share.imports.run_file import RunImport

SHOWN_AT_FIRST = 12
RECORDINGS = ASSETS / "recordings"
ENDINGS = (".gnn.json", ".gnn.json.gz")


def render_runs(store: Store) -> None:
    """Draw a line per run, newest first."""
    rows = gnn.run_rows(store)
    heading(f"Runs · {len(rows)}")
    if not rows:
        quiet("No runs yet. The settings on the left run on this machine as they are, without a GPU.")
    show_all = len(rows) > SHOWN_AT_FIRST and st.toggle(f"Show all {len(rows)}", key="gnn-all")
    for row in rows if show_all else rows[:SHOWN_AT_FIRST]:
        origin = "" if row.origin == "here" else f" · {row.origin}"
        said = f"{JOB_MARKS[row.state]} {lowered(row.state)} · {when(row.created_at)}{origin}"
        with st.container(key=f"gnn-run-{row.id}"):
            st.page_link(
                places.gnn(), label=f"**{plain_label(row.title)}** {plain_label(said)}", query_params={"job": row.id},
                width="stretch",
            )  # fmt: skip


def render_import(store: Store) -> None:
    """Draw the recordings that ship with the workbench, and the fields for a path and an uploaded file."""
    heading("Open a recorded run")
    for path in sorted(path for ending in ENDINGS for path in RECORDINGS.glob(f"*{ending}")):
        if st.button(plain_label(path.name), key=f"gnn-recording-{path.name}", width="stretch"):
            _open_shipped(store, path)
    if access.role() is not access.AccessRole.OWNER:
        return
    render_file_choice(
        "gnn-import", store, _open, label="Path of a recorded run", example="/path/to/run.gnn.json", button="Open",
        endings=("json", "gz"), most_mb=64,
        hint="A finished run from another machine, with a GPU or without. Nothing in it is run here.",
    )  # fmt: skip


def _open_shipped(store: Store, path: Path) -> None:
    """Open a shipped recording; it is imported only once."""
    origin = f"imported from {path.name}"
    before = next((row.id for row in gnn.run_rows(store) if row.origin == origin), "")
    if before:
        _go_to(before)
    _open(store, path)


def _open(store: Store, path: Path) -> NoReturn:
    imported = _imported(store, path)
    _go_to(imported.job)


def _imported(store: Store, path: Path) -> RunImport:
    # Imported late: the reader is needed only for this click.
    from cutegen_core.share.imports.run_file import import_run_file

    return import_run_file(store, path)


def _go_to(job: str) -> NoReturn:
    st.switch_page(places.gnn(), query_params={"job": job})
