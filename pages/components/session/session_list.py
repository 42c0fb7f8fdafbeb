"""The list of sessions; a click goes on with one."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core.views import SessionRow
from cutegen_core.views.wording import lowered
from pages.components.shared import places
from pages.components.shared.texts import plain_label, quiet, when

SHOWN_AT_FIRST = 12


def render_sessions(rows: Sequence[SessionRow]) -> None:
    """One line each, newest first."""
    if not rows:
        quiet("None yet. Start one above: softmax with the playbook needs no GPU, no key and no network.")
        return
    show_all = len(rows) > SHOWN_AT_FIRST and st.toggle(f"All {len(rows)}", key="all-sessions")
    for row in rows if show_all else rows[:SHOWN_AT_FIRST]:
        with st.container(horizontal=True, vertical_alignment="center", key=f"session-row-{row.id}"):
            st.page_link(
                places.session(), label=f"**{plain_label(row.problem)}** {plain_label(facts(row))}",
                query_params={"id": row.id}, width="stretch",
            )  # fmt: skip


def facts(row: SessionRow) -> str:
    """State, proposer, steps, best idea and age, for a line in a list."""
    best = f"best: {row.best_idea}" if row.best_idea else "no kernel yet"
    steps = f"{row.steps} step{'' if row.steps == 1 else 's'}"
    origin = "" if row.origin == "here" else f" · {row.origin}"
    return f"· {lowered(row.status)} · {row.proposer} · {steps} · {best} · {when(row.updated_at)}{origin}"
