"""Draw what a run has measured: the timeline with its waits, its figures, and learning over the epochs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from cutegen_core.records.gnn import EpochReport
from cutegen_core.views import gnn
from pages.components.gnn import pictures
from pages.components.shared import data
from pages.components.shared.texts import heading, heard, note, quiet, table

_PLAIN = {"displayModeBar": False}


def render_timeline(view: gnn.RunView) -> None:
    """Draw the overlap of the stages, and say which waits were exposed."""
    heading("Stages of the first batches")
    drawn = next((epoch for epoch in reversed(view.epochs) if epoch.timeline), None)
    if drawn is None:
        quiet("The timeline comes with the first finished epoch." if not view.job.is_over else "No epoch was timed.")
        return
    heard(pictures.timeline_words(drawn.timeline))
    with st.container(key="gnn-timeline"):
        st.plotly_chart(data.once(pictures.timeline, drawn.timeline), key="gnn-timeline-chart", config=_PLAIN)
    quiet(f"Epoch {drawn.epoch}; the numbers are batches. What overlaps costs no time; a gap in compute is a wait.")
    for words in wait_words(drawn):
        quiet(words)
    if found := gnn.figures(view):
        quiet(gnn.limit_words(found, view.settings))


def wait_words(epoch: EpochReport) -> list[str]:
    """Say how long the trainer had nothing to do."""
    found = [
        f"The trainer {wait.words} for {gnn.duration(wait.seconds)}, {100 * wait.share:.0f} % of the epoch."
        for wait in gnn.waits(epoch)
        if wait.seconds >= 0.005 * epoch.seconds
    ]
    return found or ["The trainer waited for nothing: less than 0.5 % of the epoch."]


def render_learning(view: gnn.RunView) -> None:
    """Draw loss and accuracy over the epochs, or say why there is nothing to draw."""
    if not view.epochs:
        return
    if view.settings.device.startswith("sleep:"):
        note("info", "A declared sleep computed nothing: there is no loss and no accuracy.")
        return
    one, other = st.columns(2, gap="small")
    for column, what, some in (
        (one, "loss", any(epoch.loss == epoch.loss for epoch in view.epochs)),
        (other, "accuracy, %", any(epoch.accuracy is not None for epoch in view.epochs)),
    ):
        with column:
            heading(what.partition(",")[0])
            if some:
                heard(_learning_words(view, what))
                st.plotly_chart(data.once(pictures.over_epochs, _bare(view.epochs), what), key=f"gnn-{what[:4]}",
                                config=_PLAIN)  # fmt: skip
            else:
                quiet("Not measured in this run.")


def _bare(epochs: tuple[EpochReport, ...]) -> tuple[EpochReport, ...]:
    """Return the epochs without their timelines, which are long to compare."""
    return tuple(replace(epoch, timeline=()) for epoch in epochs)


def _learning_words(view: gnn.RunView, what: str) -> str:
    first, last = view.epochs[0], view.epochs[-1]
    values = [(e.loss if what == "loss" else 100 * (e.accuracy or 0.0)) for e in (first, last)]
    if first is last:
        return f"{what} {values[0]:.4g} in epoch {first.epoch}."
    return f"{what} from {values[0]:.4g} in epoch {first.epoch} to {values[1]:.4g} in epoch {last.epoch}."


def render_figures(view: gnn.RunView) -> None:
    """Draw the table of figures, each with the device that it is from."""
    heading("Figures")
    rows = gnn.figure_rows(view)
    if rows:
        st.html(table(("figure", "value", "from"), [tuple(row) for row in rows], numbers_from=1))
    else:
        quiet("The figures come with the first finished epoch.")


def render_conditions(view: gnn.RunView) -> None:
    """Draw the graph, the machine, and how a plugged kernel ran."""
    if view.result is None:
        return
    graph, machine = view.result.graph, view.result.machine
    heading("Graph and machine")
    splits = f"{graph.train:,} / {graph.valid:,} / {graph.test:,}"
    rows: list[tuple[object, ...]] = [
        ("graph", graph.name), ("nodes", f"{graph.nodes:,}"), ("edges", f"{graph.edges:,}"),
        ("features, classes", f"{graph.width:,}, {graph.classes:,}"), ("train / valid / test", splits),
        *((name, value) for name, value in machine.items() if value),
    ]  # fmt: skip
    st.html(table(("fact", "value"), rows))
    if view.result.kernel_note:
        quiet(f"The plugged kernel: {view.result.kernel_note}")
    for words in view.result.notes:
        quiet(words)
