"""List the benches."""

from __future__ import annotations

import streamlit as st

from cutegen_core import views
from cutegen_core.records.wording import lowered
from cutegen_core.trajectory.store import Store
from pages.components.shared import places
from pages.components.shared.marks import JOB_MARKS
from pages.components.shared.texts import heading, plain_label, quiet, when

SHOWN_AT_FIRST = 12


def render_benches(store: Store) -> None:
    """Draw a line per bench, newest first."""
    found = views.bench_jobs(store)
    heading(f"Benches · {len(found)}")
    if not found:
        quiet("No benches yet. The built-in problems with the playbook need no GPU and no model.")
    show_all = len(found) > SHOWN_AT_FIRST and st.toggle(f"Show all {len(found)}", key="bench-all")
    for job in found if show_all else found[:SHOWN_AT_FIRST]:
        said = f"{JOB_MARKS[job.state]} {lowered(job.state)} · {when(job.created_at)}"
        with st.container(key=f"bench-row-{job.id}"):
            st.page_link(
                places.bench(), label=f"**{plain_label(job.title)}** {plain_label(said)}",
                query_params={"bench": job.id}, width="stretch",
            )  # fmt: skip
