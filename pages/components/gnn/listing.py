"""List the runs, and open one that was recorded elsewhere."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.job import JobState
from cutegen_core.records.wording import lowered
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from pages.components.shared import places
from pages.components.shared.texts import heading, plain_label, quiet, when

SHOWN_AT_FIRST = 12
STATE_MARKS = {
    JobState.WAITING: "○", JobState.RUNNING: "●", JobState.DONE: "✓", JobState.FAILED: "✗", JobState.STOPPED: "■",
    JobState.INTERRUPTED: "▲",
}  # fmt: skip


def render_runs(store: Store) -> None:
    """Draw a line per run, newest first."""
    rows = gnn.run_rows(store)
    heading(f"Runs · {len(rows)}")
    if not rows:
        quiet("No runs yet. The settings on the left run on this machine as they are, without a GPU.")
    show_all = len(rows) > SHOWN_AT_FIRST and st.toggle(f"Show all {len(rows)}", key="gnn-all")
    for row in rows if show_all else rows[:SHOWN_AT_FIRST]:
        origin = "" if row.origin == "here" else f" · {row.origin}"
        said = f"{STATE_MARKS[row.state]} {lowered(row.state)} · {when(row.created_at)}{origin}"
        with st.container(key=f"gnn-run-{row.id}"):
            st.page_link(
                places.gnn(), label=f"**{plain_label(row.title)}** {plain_label(said)}", query_params={"job": row.id},
                width="stretch",
            )  # fmt: skip


def render_import(store: Store) -> None:
    """Draw the field that opens a recorded run."""
    heading("Open a recorded run")
