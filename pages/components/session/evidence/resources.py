"""The resources pane: registers, spills, shared memory, occupancy, instructions, and how each changed."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.evidence import Topic
from cutegen_core.records.wording import lowered
from cutegen_core.views import Delta
from pages.components.session.evidence.pane import PaneInput
from pages.components.session.evidence.sections import render_section
from pages.components.shared import charts
from pages.components.shared.texts import Html, heading, heard, note, table

MEASURED = ("µs", "GB/s", "TFLOP/s")
"""Units whose change is also written in per cent."""


def render_resources(given: PaneInput) -> None:
    """Draw what the compiler spent, against the kernel that this one was made from."""
    trial, base = given.trial, views.base_trial(given.store, given.view.state, given.tried.step)
    resources = trial.resources
    if resources is None:
        note("warning", f"Not compiled: {trial.message or lowered(trial.status)}")
        return
    heading(f"Compiled for {resources.arch}")
    numbers = [d for d in views.compare(base, trial) if "SASS" not in d.name and not d.name.startswith("occupancy")]
    st.html(deltas(numbers, "base", "this"))
    for section in given.evidence.sections(Topic.OCCUPANCY):
        render_section(section)
    heading("Instruction mix")
    mixes = {"this": dict(views.instruction_mix(trial))}
    if base and base.resources:
        mixes["base"] = dict(views.instruction_mix(base))
    heard(charts.mix_words(mixes))
    st.plotly_chart(charts.mix_bars(mixes), key="mix-bars", config={"displayModeBar": False})


def deltas(rows: Sequence[Delta], left: str, right: str) -> str:
    """Write a comparison as an HTML table, with each change and its direction."""
    body: list[tuple[object, ...]] = []
    for row in rows:
        name = f"{row.name}, {row.unit}" if row.unit and row.unit not in row.name else row.name
        body.append((name, number(row.left), number(row.right), change(row)))
    return table(("", left, right, "change"), body)


def change(row: Delta) -> Html:
    """Write the change of one number, its direction as a shape."""
    if row.left is None or row.right is None:
        return Html("")
    by = float(row.right - row.left)
    if abs(by) < 1e-9:
        return Html("=")
    shape = "▲ +" if by > 0 else "▼ −"
    size = abs(by)
    percent = 100 * by / abs(row.left) if row.left else 0.0
    relative = f" ({percent:+.{0 if abs(percent) >= 10 else 1}f} %)" if row.left and row.unit in MEASURED else ""
    return Html(f"{shape}{size:{'g' if size.is_integer() else '.0f' if size >= 1000 else '.3g'}}{relative}")


def number(value: float | None) -> str:
    """Write a number of a comparison."""
    if value is None:
        return "-"
    return f"{value:g}" if float(value).is_integer() else f"{value:.4g}"
