"""Every step: the list (a click opens the step) and the chart of one number over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from cutegen_core import views
from cutegen_core.event import Outcome
from cutegen_core.store import Store
from cutegen_core.trial import Status
from cutegen_core.views import SessionView, StepRow
from pages.components import charts, hunk_view, speed_charts, ui_state
from pages.components.texts import heading, lowered, micros, plain_label, quiet

Metric = Literal["registers", "spills", "shared", "mix", "latency"]

_METRICS: dict[Metric, tuple[str, str]] = {
    "registers": ("registers", "registers"),
    "spills": ("spill_bytes", "spilled, B"),
    "shared": ("smem_bytes", "shared, B"),
}
_CONFIG = {"displayModeBar": False, "scrollZoom": False}


def render_timeline(store: Store, view: SessionView, shown: int | None) -> None:
    """The list, newest first, and the chart below."""
    branches = _branches(view.steps)
    counted = f"Timeline · {len(view.steps)} step{'' if len(view.steps) == 1 else 's'}"
    heading(f"{counted}{' · ↰ goes on from' if branches else ''}")
    with st.container(key="steps"):
        if not view.steps:
            quiet("The first step is on its way.")
        for row in reversed(view.steps):
            _step_button(row, branches.get(row.number, 0), is_shown=row.number == shown)
    if any(row.status for row in view.steps):
        _chart(store, view, shown)
    else:
        quiet("The chart begins with the first compiled step.")


def _branches(rows: Sequence[StepRow]) -> dict[int, int]:
    """Steps that do not go on from the kernel before them -> the step they go on from."""
    made_in = {row.candidate: row.number for row in reversed(rows) if row.candidate}
    found: dict[int, int] = {}
    before = 0
    for row in rows:
        parent = made_in.get(row.parent, 0) if row.parent else 0
        if parent and parent != before:
            found[row.number] = parent
        before = row.number if row.candidate else before
    return found


def _step_button(row: StepRow, branch: int, *, is_shown: bool) -> None:
    key = f"step-row-shown-{row.number}" if is_shown else f"step-row-{row.number}"
    st.button(
        plain_label(_line(row, branch)),
        key=key,
        type="tertiary",
        width="stretch",
        help=None,
        on_click=_open,
        args=(row.number,),
    )


def _line(row: StepRow, branch: int) -> str:
    star = " ★" if row.is_best else ""
    took = f" {micros(1000 * row.latency_ms)} ·" if row.latency_ms is not None else ""
    idea = row.idea or ("no kernel" if row.outcome else "working on it")
    origin = f" ↰{branch}" if branch else ""
    return f"{_mark(row)} {row.number}{star}{origin} {took} {idea} · {_verdict(row)}"


def _mark(row: StepRow) -> str:
    if row.status is None:
        return "○" if row.outcome is None else "–"
    return "✓" if row.status is Status.PASSED else "✗"


def _verdict(row: StepRow) -> str:
    if row.status is None:
        return str(row.outcome) if row.outcome else "open"
    if row.status is Status.PASSED:
        return "passed" if row.outcome in (Outcome.PROMOTED, None) else f"passed, {row.outcome}"
    return lowered(row.status)


def _open(number: int) -> None:
    hunk_view.close()
    st.query_params["step"] = str(number)


def _chart(store: Store, view: SessionView, shown: int | None) -> None:
    speeds = views.speed_rows(store, view.state)
    metric: Metric = st.segmented_control(
        "Chart", ["latency", *_METRICS, "mix"], key=f"metric-{view.id}", required=True,
        default="latency" if speeds else "registers", label_visibility="collapsed",
    )  # fmt: skip
    if metric == "latency":
        figure = speed_charts.latency_over_steps(view.steps, speeds, shown) if speeds else _no_latency(view)
    elif metric == "mix":
        figure = charts.mix_over_steps(views.mix_rows(store, view.state))
    else:
        attribute, unit = _METRICS[metric]
        figure = charts.over_steps(view.steps, attribute, unit, shown)
    chart_key = f"chart-{metric}"
    st.plotly_chart(
        figure, key=chart_key, config=_CONFIG, selection_mode="points", on_select=lambda: _open_point(chart_key)
    )


def _no_latency(view: SessionView) -> charts.Figure:
    gpu = view.state.settings.executor == "gpu"
    return charts.no_latency(view.steps, "nothing timed yet" if gpu else charts.NEEDS_GPU)


def _open_point(key: str) -> None:
    number = ui_state.chosen_point(key)
    if number is not None:
        _open(number)
