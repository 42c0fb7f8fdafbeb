"""The pane of a tune step: the points of the declared parameters, their times round by round, and the choice."""

from __future__ import annotations

from collections.abc import Iterator
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

MOST_ROWS = 128
_SHAPES = {"FASTER": "▲", "SAME": "=", "SLOWER": "▼"}


def is_swept(shown: StepView) -> bool:
    """Say whether the step's kernel was chosen by a sweep."""
    return bool(shown.step.sweep)


def render_sweep(given: PaneInput) -> None:
    """Draw the charts and the table of the points."""
    from cutegen_core.evaluate.sweep import SweepTable

    found = given.store.record(SweepTable, given.shown.step.sweep)
    heading(f"Sweep · {_summary(found)}")
    if found.turns:
        heard("Chart of the times of all points after each round; the last ones are in the table that follows.")
        st.plotly_chart(speed_charts.sweep_rounds(found), key="sweep-rounds", config={"displayModeBar": False})
    elif any(row.latency_ms is not None for row in found.rows):
        heard("Chart of the time of every point; the numbers are in the table that follows.")
        st.plotly_chart(speed_charts.sweep(found), key="sweep-chart", config={"displayModeBar": False})
    st.html(_table(found))
    for words in _notes(found):
        quiet(words)


def _summary(found: SweepTable) -> str:
    """Say how many points were timed, tested and passed; without times, that they are not ranked by time."""
    tested = sum(row.status is not None for row in found.rows)
    passed = sum(row.status is Status.PASSED for row in found.rows)
    if found.turns:
        timed = sum(bool(row.raced_us) for row in found.rows)
        return f"{counted(timed, 'point')} timed side by side, {passed} of {tested} tested passed"
    ranked = "" if any(row.latency_ms is not None for row in found.rows) else ", not ranked by time"
    return f"{passed} of {tested} tested points passed{ranked}"


def _notes(found: SweepTable) -> Iterator[str]:
    yield f"★ is the choice. Decided by {found.decided_by}."
    if found.turns:
        share = 100 * found.turns / found.full_turns
        yield f"{found.turns} turns of timing, {share:.0f} % of what timing every point in full takes."
    if len(found.rows) > MOST_ROWS:
        yield f"{counted(len(found.rows) - MOST_ROWS, 'point')} further down the ranking not shown."
    yield from found.say_left_out()
    if any(row.cost is not None for row in found.rows):
        yield (
            "Model is the cost by a model of the launches (waves, occupancy, bytes in flight, spills), in costs of the "
            "defaults: less is better. It is not a time."
        )
    if any(row.shapes for row in found.rows):
        yield "The mean is the geometric mean over the workloads. ▲ faster, = within noise, ▼ slower than the defaults."


def _table(found: SweepTable) -> str:
    """Write the table as HTML, without columns that are empty here."""
    names = list(found.rows[0].params) if found.rows else []
    timed = any(row.latency_ms is not None for row in found.rows)
    raced, modelled = bool(found.turns), any(row.cost is not None for row in found.rows)
    spilled = any(row.spill_bytes for row in found.rows)
    shapes = tuple(dict.fromkeys(shape.workload for row in found.rows for shape in row.shapes))
    times = ("mean, µs" if shapes else "µs", "vs default", *shapes) if timed else ()
    rounds = ("rounds", "side by side, µs") if raced else ()
    costs = ("registers", *(("spilled, B",) if spilled else ()), "occupancy", *(("model",) if modelled else ()))

    def cells(number: int, row: SweepRow) -> tuple[object, ...]:
        chosen = " ".join(filter(None, ("★" if number == found.chosen else "", "default" if number == 0 else "")))
        spent: tuple[object, ...] = (
            row.registers,
            *((row.spill_bytes,) if spilled else ()),
            f"{100 * row.occupancy:.0f} %",
            *(("" if row.cost is None else f"{row.cost:.2f}",) if modelled else ()),
        )
        numbers = spent if row.registers else ("",) * len(costs)
        return (
            chosen,
            _verdict(row),
            *(row.params[name] for name in names),
            *(_rounds(row) if raced else ()),
            *(_time(row, shapes) if timed else ()),
            *numbers,
        )

    header = ("", "verdict", *names, *rounds, *times, *costs)
    return table(header, [cells(i, row) for i, row in enumerate(found.rows[:MOST_ROWS])], numbers_from=2)


def _verdict(row: SweepRow) -> Html:
    if row.status is None:
        return Html(f'<span class="cg-state" title="{tooltip(row.message)}">not tested</span>')
    shape, kind = ("✓", "passed") if row.status is Status.PASSED else ("✗", "failed")
    said = f"{shape} {lowered(row.status)}"
    return Html(f'<span class="cg-state cg-{kind}" title="{tooltip(row.message)}">{escape_html(said)}</span>')


def _rounds(row: SweepRow) -> tuple[object, ...]:
    return (len(row.raced_us), f"{row.raced_us[-1]:.4g}") if row.raced_us else ("", "")


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
