"""Draw a run beside others: aggregations before and after, with the bound on any gain, and numbers of ranks."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.gnn import TORCH_AGGREGATES, RunSettings
from cutegen_core.records.wording import ratio
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from pages.components.gnn import pictures
from pages.components.shared import places
from pages.components.shared.texts import heading, heard, plain_label, quiet, table


def render_versus(store: Store, view: gnn.RunView) -> None:
    """Draw the aggregations that ran with these settings, and what a kernel could give at most."""
    heading("Aggregation: before and after")
    found = gnn.beside(store, view)
    if not found.sides:
        quiet("No epoch was timed.")
        return
    header = ("aggregation", "epoch", "K", "last loss", "test accuracy")
    st.html(table(header, [_row(side, found) for side in found.sides]))
    quiet(verdict(found, view.settings))
    _links(store, view, found)


def _row(side: gnn.AggregateSide, found: gnn.Beside) -> tuple[object, ...]:
    marks = [*(["this run's"] if side is found.shown else []), *(["PyTorch's best"] if side is found.baseline else [])]
    mark = f" ({', '.join(marks)})" if marks else ""
    loss = f"{side.loss:.4g}" if side.loss is not None and side.loss == side.loss else "–"
    gained = ratio(side.speedup) if side.speedup else ratio(1.0) if side is found.baseline else "–"
    return f"{side.aggregate}{mark}", gnn.duration(side.epoch_s), gained, loss, gnn.percent_of(side.accuracy)


def verdict(found: gnn.Beside, settings: RunSettings) -> str:
    """Say what a kernel could give at most here, by PyTorch's best, and what a plugged one gave."""
    if found.baseline is None:
        return "K needs a run of one of PyTorch's aggregations with the same settings."
    said = []
    if any(side.plugged for side in found.sides) and gnn.on_emulator(settings):
        said.append("The kernel ran on the emulator: its results count, its time does not. K needs a GPU.")
    if found.shown and found.shown.plugged and found.shown.speedup:
        said.append(f"The plugged kernel gave {ratio(found.shown.speedup)} over {found.baseline.aggregate}.")
    if found.baseline.bound:
        said.append(gnn.bound_words(found.baseline.bound))
    else:
        said.append("A run with task bench also measures the share of aggregation, and so the bound on any kernel.")
    if not found.in_turns and len(found.sides) > 1:
        said.append("These are separate runs; a bench measures all in turns.")
    return " ".join(said)


def _links(store: Store, view: gnn.RunView, found: gnn.Beside) -> None:
    """Draw the links to the runs beside this one, and to the form with what is missing."""
    ran = {side.aggregate for side in found.sides}
    with st.container(horizontal=True, vertical_alignment="center"):
        for side in found.sides:
            if side.job != view.job.id:
                label = plain_label(f"Open the run with {side.aggregate}")
                st.page_link(places.gnn(), label=label, query_params={"job": side.job})
        if found.baseline is None:
            _preset(view, f"Run {TORCH_AGGREGATES[0]} with these settings", aggregate=TORCH_AGGREGATES[0])
        elif found.baseline.bound is None:
            _preset(view, "Measure the bound", task="bench")
        for choice in gnn.kernel_choices(store):
            if choice.aggregate not in ran:
                _preset(view, f"Plug in {choice.aggregate}", aggregate=choice.aggregate)


def _preset(view: gnn.RunView, label: str, **settings: str) -> None:
    st.page_link(places.gnn(), label=plain_label(label), query_params={"like": view.job.id, **settings})


def render_scaling(store: Store, view: gnn.RunView) -> None:
    """Draw the epoch's speedup over the number of ranks, where there are runs of several."""
    points = gnn.scaling(store, view)
    if len(points) < 2:
        return
    heading("Ranks")
    heard("; ".join(f"{point.ranks} ranks: {gnn.duration(point.epoch_s)} an epoch" for point in points))
    st.plotly_chart(pictures.over_ranks(points), key="gnn-scaling", config={"displayModeBar": False})
