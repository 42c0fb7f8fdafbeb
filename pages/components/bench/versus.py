"""Draw what changed since another bench of problems in common."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.job import Job
from cutegen_core.records.wording import counted, ratio
from cutegen_core.trajectory.store import Store
from cutegen_core.views import BenchLine, BenchView
from pages.components.shared import address, ui_state
from pages.components.shared.texts import heading, note, quiet, show_hidden, table, when

NONE = ""


def render_versus(store: Store, view: BenchView, lines: Sequence[BenchLine]) -> None:
    """Draw the choice of another bench, and the problems that differ."""
    others = {job.id: job for job in views.bench_jobs(store) if job.id != view.job.id}
    if not others:
        return
    key, wanted = f"bench-against-{view.job.id}", address.get("against")
    if wanted not in (NONE, *others):
        note("error", f"There is no bench “{wanted}” to compare with. Choose another one.")
    ui_state.keep_among(key, [NONE, *others], wanted if wanted in others else NONE)
    chosen = st.selectbox(
        "Compare with", [NONE, *others], key=key, width=560, on_change=ui_state.noted(_choose, key),
        format_func=lambda job: _named(others[job]) if job else "no other",
    )  # fmt: skip
    if chosen:
        _changes(store, chosen, lines)


def _named(job: Job) -> str:
    return show_hidden(f"{job.title} · {when(job.created_at)}")


def _choose(key: str) -> None:
    address.go(against=ui_state.text(key) or None)


def _changes(store: Store, other: str, lines: Sequence[BenchLine]) -> None:
    before = views.bench_lines(store, other)
    common = {line.problem for line in before} & {line.problem for line in lines}
    if not common:
        note("info", "The two have no problem in common.")
        return
    found = views.compare_benches(before, lines)
    heading(f"Changed since then · {len(found)} of {counted(len(common), 'problem')} in common")
    if not found:
        quiet("The same outcomes; no time changed by more than 3 %.")
        return
    rows: list[tuple[object, ...]] = [
        (change.problem, change.before, change.after, ratio(change.ratio) if change.ratio else "") for change in found
    ]
    st.html(table(("problem", "then", "now", "times as fast"), rows, numbers_from=3))
