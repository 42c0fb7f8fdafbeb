"""Two candidates of one or two sessions: source, time, resources, machine code. `?a=SESSION.STEP&b=SESSION.STEP`."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.code_text import diff
from cutegen_core.store import Store
from cutegen_core.views import StepRow, StepView
from pages.components import charts, code_tables, data, places, ui_state
from pages.components.code_tables import Notes
from pages.components.resources import deltas
from pages.components.texts import escaped, heading, lowered, micros, note, quiet, visible
from pages.components.versus import render_versus


class Side(NamedTuple):
    """One of the two."""

    session: str
    step: StepView

    @property
    def label(self) -> str:
        return f"step {self.step.step.number}"


def choose(store: Store, name: str, fallback_step: int) -> Side | None:
    """The pickers of one side; the choice is in the URL."""
    rows = {row.id: row for row in views.session_rows(store)}
    wanted, _, number = st.query_params.get(name, "").partition(".")
    if wanted and wanted not in rows:
        note("error", f"There is no session “{wanted}”. Choose another one.")
    session_key, step_key = f"compare-session-{name}", f"compare-step-{name}"
    ui_state.put(session_key, wanted if wanted in rows else next(iter(rows)))
    session = st.selectbox(
        f"Session {name.upper()}", list(rows), key=session_key, on_change=_chosen, args=(name, session_key, ""),
        format_func=lambda i: visible(f"{rows[i].problem} · {rows[i].proposer} · {i}"),
    )  # fmt: skip
    steps = {row.number: row for row in views.session_view(store, session).steps if row.candidate}
    if not steps:
        quiet("This session has no kernel yet.")
        return None
    if number and (not number.isdecimal() or int(number) not in steps):
        note("error", f"Session {session} has no kernel in step “{number}”.")
    last = sorted(steps)[max(-len(steps), fallback_step)]
    ui_state.put(step_key, int(number) if number.isdecimal() and int(number) in steps else last)
    step = st.selectbox(
        f"Step {name.upper()}", list(steps), key=step_key, on_change=_chosen, args=(name, session_key, step_key),
        format_func=lambda n: visible(_step_words(steps[n])),
    )  # fmt: skip
    return Side(session, views.step_view(store, session, step))


def _chosen(name: str, session_key: str, step_key: str) -> None:
    step = f".{ui_state.text(step_key)}" if step_key else ""
    st.query_params[name] = f"{ui_state.text(session_key)}{step}"


def _step_words(row: StepRow) -> str:
    took = f" · {micros(1000 * row.latency_ms)}" if row.latency_ms is not None else ""
    return f"{row.number}: {row.idea} · {lowered(row.status or 'not tried')}{took}{' ★' if row.is_best else ''}"


def verdict(side: Side) -> str:
    """One line about one side."""
    trial = side.step.trial
    status = lowered(trial.status) if trial else "not tried"
    return f"{side.label}: {side.step.step.idea} · {status}{'. ' + trial.message if trial and trial.message else ''}"


store = data.store()
if not store.sessions():
    note("info", "There is nothing to compare yet: no session has begun.")
    st.page_link(places.start(), label="Start one")
    st.stop()
one, two = st.columns(2)
with one:
    a = choose(store, "a", -2)
with two:
    b = choose(store, "b", -1)
if a is None or b is None:
    st.stop()
for side in (a, b):
    quiet(verdict(side))
source, numbers = st.columns([1.8, 1], gap="small")
with source:
    change = diff.summary(a.step.source, b.step.source)
    heading(f"Source: {change.added} lines added, {change.removed} removed from A to B")
    picture = st.segmented_control(
        "Picture",
        ("split", "inline"),
        default="split",
        required=True,
        key="compare-picture",
        label_visibility="collapsed",
    )
    draw = code_tables.side_by_side if picture == "split" else code_tables.inline
    with st.container(key="code-pane"):
        st.html(
            draw(a.step.source, b.step.source, Notes())
            if change != (0, 0)
            else f"<p class='cg-quiet'>{escaped('The sources are the same.')}</p>"
        )
timed = any(views.compare_speed(a.step.trial, b.step.trial))
with numbers:
    if timed:
        heading("Timing")
        render_versus(a.step.trial, b.step.trial, (f"A · {a.label}", f"B · {b.label}"))
    heading("Resources")
    rows = views.compare(a.step.trial, b.step.trial)
    st.html(deltas([row for row in rows if "SASS" not in row.name], f"A · {a.label}", f"B · {b.label}"))
    heading("Instruction mix")
    mixes = {"B": dict(views.instruction_mix(b.step.trial)), "A": dict(views.instruction_mix(a.step.trial))}
    st.plotly_chart(charts.mix_bars(mixes), key="compare-mix", config={"displayModeBar": False})
    if not timed:
        heading("Timing")
        quiet(charts.NEEDS_GPU)
