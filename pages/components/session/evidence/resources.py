"""The resources pane: registers, spills, shared memory, occupancy, instruction mix; the change to the base."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.trial import Occupancy, Trial
from cutegen_core.records.wording import dims, lowered
from cutegen_core.views import Delta
from pages.components.shared import charts
from pages.components.shared.texts import Html, heading, heard, note, table

MEASURED = ("µs", "GB/s", "TFLOP/s")
"""Units whose change is also told relatively."""


def render_resources(trial: Trial, base: Trial | None) -> None:
    """What the compiler spent; `base` is the trial of the kernel this one was made from."""
    resources = trial.resources
    if resources is None:
        note("warning", f"Not compiled: {trial.message or lowered(trial.status)}")
        return
    heading(f"Compiled for {resources.arch}")
    numbers = [d for d in views.compare(base, trial) if "SASS" not in d.name and not d.name.startswith("occupancy")]
    st.html(deltas(numbers, "base", "this"))
    heading("Occupancy, theoretical")
    st.html(occupancy_table(resources.occupancy))
    heading("Instruction mix")
    mixes = {"this": dict(views.instruction_mix(trial))}
    if base and base.resources:
        mixes["base"] = dict(views.instruction_mix(base))
    heard(charts.mix_words(mixes))
    st.plotly_chart(charts.mix_bars(mixes), key="mix-bars", config={"displayModeBar": False})


def deltas(rows: Sequence[Delta], left: str, right: str) -> str:
    """HTML of a comparison, with the change and its direction in words and shapes."""
    body: list[tuple[object, ...]] = []
    for row in rows:
        name = f"{row.name}, {row.unit}" if row.unit and row.unit not in row.name else row.name
        body.append((name, number(row.left), number(row.right), change(row)))
    return table(("", left, right, "change"), body)


def change(row: Delta) -> Html:
    """The change of one line, with its direction as a shape."""
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
    """A number as the comparisons write it."""
    if value is None:
        return "-"
    return f"{value:g}" if float(value).is_integer() else f"{value:.4g}"


def occupancy_table(rows: Sequence[Occupancy]) -> str:
    """HTML: every workload's launches, and what limits them."""
    several = len({row.kernel for row in rows}) > 1
    body: list[tuple[object, ...]] = [
        (
            f"{row.workload}, {row.kernel}" if several else row.workload, dims(row.grid), dims(row.block),
            row.smem_bytes, row.blocks_per_sm, f"{100 * row.occupancy:.0f} %", f"{row.waves:.2f}", row.limiter,
        )
        for row in rows
    ]  # fmt: skip
    return table(("workload", "grid", "block", "smem B", "blocks/SM", "occupancy", "waves", "limited by"), body)
