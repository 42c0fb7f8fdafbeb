"""List the sessions; a click opens one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st

from cutegen_core.records.wording import counted, lowered
from cutegen_core.views import SessionRow
from pages.components.shared import places
from pages.components.shared.texts import plain_label, quiet, when

SHOWN_AT_FIRST = 12


def render_sessions(rows: Sequence[SessionRow], of_benches: Collection[str]) -> None:
    """Draw a line per session, newest first; those of benches, whose pages list them, where they are asked for."""
    if not rows:
        quiet("No sessions yet. Start one: softmax with the playbook needs no GPU, no API key and no network.")
        return
    many = sum(row.id in of_benches for row in rows)
    if many and not st.toggle(f"With {counted(many, 'session')} of benches", key="bench-sessions"):
        rows = [row for row in rows if row.id not in of_benches]
    show_all = len(rows) > SHOWN_AT_FIRST and st.toggle(f"Show all {len(rows)}", key="all-sessions")
    for row in rows if show_all else rows[:SHOWN_AT_FIRST]:
        with st.container(horizontal=True, vertical_alignment="center", key=f"session-row-{row.id}"):
            st.page_link(
                places.session(), label=f"**{plain_label(row.problem)}** {plain_label(facts(row))}",
                query_params={"id": row.id}, width="stretch",
            )  # fmt: skip


def facts(row: SessionRow) -> str:
    """Write state, proposer, steps, age, origin and best idea, which may be long, for a line in a list."""
    best = f"best: {row.best_idea}" if row.best_idea else "no kernel yet"
    origin = "" if row.origin == "here" else f" · {row.origin}"
    said = f"· {lowered(row.status)} · {row.proposer} · {counted(row.steps, 'step')}"
    return f"{said} · {when(row.updated_at)}{origin} · {best}"
