"""Draw the timeline: the tree of all steps (a click opens one), keys for the next one and for comparing, the chart."""

from __future__ import annotations

from functools import partial
from typing import Literal

import streamlit as st

from cutegen_core import views
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import NEEDS_GPU, counted
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, SpeedRow, StepRow, TreeRow
from pages.components.session import hunk_view
from pages.components.session.branch_marks import mark_branches
from pages.components.session.centre import room
from pages.components.session.step_list import AUTHORS, StepListActions, render_step_list
from pages.components.shared import address, charts, data, places, speed_charts, ui_state
from pages.components.shared.texts import heading, heard, quiet

Metric = Literal["registers", "spills", "shared", "mix", "latency"]

_METRICS: dict[Metric, tuple[str, str]] = {
    "registers": ("registers", "registers"),
    "spills": ("spill_bytes", "spilled, B"),
    "shared": ("smem_bytes", "shared, B"),
}
_CONFIG = {"displayModeBar": False, "scrollZoom": False}
_COMPARING = "comparing"
_LEGEND = " · ".join(f"{mark} {word}" for mark, word in list(AUTHORS.values())[:3])
"""The authors a step can have; imported ones are named in their rows."""


def render_timeline(store: Store, view: SessionView, shown: int | None, *, chart: bool) -> None:
    """Draw the list, newest first, and the chart below unless the page needs its room."""
    heading(f"Timeline · {counted(len(view.steps), 'step')}")
    _keys(view, shown)
    if not view.steps:
        quiet("Waiting for the first step.")
        return
    tree, speeds = views.step_tree(view.state), views.speed_rows(store, view.state)
    render_step_list(view, tree, speeds, shown, StepListActions(_open, partial(_compare, view)))
    quiet(f"★ best · ☆ promoted · {_LEGEND}")
    _go_to_comparison(view)
    if not chart:
        return
    if any(row.status for row in view.steps):
        _chart(store, view, tree, speeds, shown)
    else:
        quiet("The chart appears with the first compiled step.")


def _keys(view: SessionView, shown: int | None) -> None:
    """Draw buttons with shortcuts for what the list does, and for the reference."""
    with st.container(horizontal=True, gap="xsmall", key="step-keys"):
        if view.steps:
            _moves(view, shown)
        room.reference_button()


def _moves(view: SessionView, shown: int | None) -> None:
    numbers = [row.number for row in view.steps]
    at = numbers.index(shown) if shown in numbers else len(numbers) - 1
    row = view.steps[at]
    st.button("Older", key="step-older", shortcut="O", disabled=at == 0,
              on_click=ui_state.noted(_open, numbers[max(0, at - 1)]))  # fmt: skip
    st.button("Newer", key="step-newer", shortcut="N", disabled=at + 1 == len(numbers),
              on_click=ui_state.noted(_open, numbers[min(at + 1, len(numbers) - 1)]))  # fmt: skip
    pair = _pairs(view, row)
    st.button("vs best", key="step-compare", shortcut="V", disabled="best" not in pair,
              help="Compares the shown step with the best kernel",
              on_click=ui_state.noted(ui_state.put, _COMPARING, pair.get("best")))  # fmt: skip
    st.button("vs parent", key="step-compare-parent", shortcut="Shift+V", disabled="parent" not in pair,
              help="Compares the shown step with the kernel that it was made from",
              on_click=ui_state.noted(ui_state.put, _COMPARING, pair.get("parent")))  # fmt: skip


def _pairs(view: SessionView, row: StepRow) -> dict[str, tuple[int, int]]:
    """Return the steps to compare, A and B, by what B is compared with."""
    made_from = view.state.step_of(row.parent) if row.parent else None
    others = {"best": view.state.best_step, "parent": made_from}
    return {
        name: (other.number, row.number)
        for name, other in others.items()
        if row.candidate and other and other.candidate and other.number != row.number
    }


def _go_to_comparison(view: SessionView) -> None:
    """Open the comparison that a click, a key or a drag has asked for."""
    match ui_state.taken(_COMPARING):
        case (int(a), int(b)):
            st.switch_page(places.compare(), query_params={"a": f"{view.id}.{a}", "b": f"{view.id}.{b}"})


def _compare(view: SessionView, a: int, b: int) -> None:
    """Note two steps to compare; 0 as A is the best, or for the best itself its parent."""
    row = view.steps[b - 1]
    pairs = _pairs(view, row)
    ui_state.put(_COMPARING, (a, b) if a else pairs.get("best") or pairs.get("parent"))


def _open(number: int) -> None:
    address.go(step=str(number), **hunk_view.closed())


def _chart(
    store: Store, view: SessionView, tree: tuple[TreeRow, ...], speeds: tuple[SpeedRow, ...], shown: int | None
) -> None:
    metric: Metric = st.segmented_control(
        "Chart", ["latency", *_METRICS, "mix"], key=f"metric-{view.id}", required=True,
        default="latency" if speeds else "registers", label_visibility="collapsed",
    )  # fmt: skip
    if metric == "latency":
        figure = data.once(_latency, view.steps, speeds, tree, shown) if speeds else _no_latency(view)
    elif metric == "mix":
        figure = charts.mix_over_steps(views.mix_rows(store, view.state))
    else:
        attribute, unit = _METRICS[metric]
        figure = data.once(charts.over_steps, view.steps, attribute, unit, shown)
    chart_key = f"chart-{metric}"
    heard(f"Chart of {metric} over the steps; each step is in the list above.")
    st.plotly_chart(
        figure, key=chart_key, config=_CONFIG, selection_mode="points", on_select=lambda: _open_point(chart_key)
    )


def _latency(
    steps: tuple[StepRow, ...], speeds: tuple[SpeedRow, ...], tree: tuple[TreeRow, ...], shown: int | None
) -> charts.Figure:
    figure = speed_charts.latency_over_steps(steps, speeds, shown)
    return mark_branches(figure, tree, {row.step: row.latency_us for row in speeds})


def _no_latency(view: SessionView) -> charts.Figure:
    gpu = view.state.settings.executor is ExecutorKind.GPU
    return data.once(charts.no_latency, view.steps, "nothing timed yet" if gpu else NEEDS_GPU)


def _open_point(key: str) -> None:
    number = ui_state.chosen_point(key)
    if number is not None:
        _open(number)
