"""The pane of a tune step: every combination of the declared parameters, its time, and which one was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from cutegen_core.records.performance import ShapeTime
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import counted, lowered
from cutegen_core.views import StepView
from pages.components.session.evidence.pane import PaneInput
from pages.components.shared import speed_charts
from pages.components.shared.texts import Html, escape_html, heading, heard, quiet, table, tooltip

if TYPE_CHECKING:  # it imports the evaluator, which takes a while to load
    from cutegen_core.evaluate.sweep import SweepRow, SweepTable

_SHAPES = {"FASTER": "▲", "SAME": "=", "SLOWER": "▼"}


def is_swept(shown: StepView) -> bool:
    """Say whether the step's kernel was chosen by a sweep."""
    return bool(shown.step.sweep)


def render_sweep(given: PaneInput) -> None:
    """Draw the chart and the table of the combinations."""
    from cutegen_core.evaluate.sweep import SweepTable

    found = given.store.record(SweepTable, given.shown.step.sweep)
    passed = sum(row.status is Status.PASSED for row in found.rows)
    heading(f"Sweep · {passed} of {len(found.rows)} combinations passed")
    if any(row.latency_ms is not None for row in found.rows):
        heard("Chart of the time of every combination; the numbers are in the table that follows.")
        st.plotly_chart(speed_charts.sweep(found), key="sweep-chart", config={"displayModeBar": False})
    st.html(_table(found))
    left_out = f" {counted(found.left_out, 'further combination')} not tested." if found.left_out else ""
    quiet(f"★ is the choice. Decided by {found.decided_by}.{left_out}")
    if any(row.shapes for row in found.rows):
        quiet(
            "The mean is the geometric mean over the workloads. ▲ faster, = within noise, ▼ slower than the defaults."
        )


def _table(found: SweepTable) -> str:
    """Write the table as HTML, without columns that are empty here."""
    names = list(found.rows[0].params) if found.rows else []
    timed = any(row.latency_ms is not None for row in found.rows)
    spilled = any(row.spill_bytes for row in found.rows)
    shapes = tuple(dict.fromkeys(shape.workload for row in found.rows for shape in row.shapes))
    times = ("mean, µs" if shapes else "µs", "vs default", *shapes) if timed else ()
    costs = ("registers", *(("spilled, B",) if spilled else ()), "occupancy")

    def cells(number: int, row: SweepRow) -> tuple[object, ...]:
        chosen = " ".join(filter(None, ("★" if number == found.chosen else "", "default" if number == 0 else "")))
        spent: tuple[object, ...] = (
            row.registers,
            *((row.spill_bytes,) if spilled else ()),
            f"{100 * row.occupancy:.0f} %",
        )
        numbers = spent if row.registers else ("",) * len(costs)
        return (
            chosen,
            _verdict(row),
            *(row.params[name] for name in names),
            *(_time(row, shapes) if timed else ()),
            *numbers,
        )

    header = ("", "verdict", *names, *times, *costs)
    return table(header, [cells(i, row) for i, row in enumerate(found.rows)], numbers_from=2)


def _verdict(row: SweepRow) -> Html:
    shape, kind = ("✓", "passed") if row.status is Status.PASSED else ("✗", "failed")
    said = f"{shape} {lowered(row.status)}"
    return Html(f'<span class="cg-state cg-{kind}" title="{tooltip(row.message)}">{escape_html(said)}</span>')


def _time(row: SweepRow, shapes: tuple[str, ...]) -> tuple[object, ...]:
    """Write the time, over several workloads the geometric mean, and then each workload's with its comparison."""
    took = "" if row.latency_ms is None else f"{1000 * row.latency_ms:.4g}"
    by_shape = {shape.workload: shape for shape in row.shapes}
    word = "" if row.word is None else f"{_SHAPES[row.word]} {lowered(row.word)}"
    return (took, word, *(_shape(by_shape.get(name)) for name in shapes))


def _shape(shape: ShapeTime | None) -> str:
    if shape is None:
        return ""
    return f"{1000 * shape.latency_ms:.4g}{f' {_SHAPES[shape.against_best]}' if shape.against_best else ''}"
