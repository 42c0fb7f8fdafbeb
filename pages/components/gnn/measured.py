"""Draw what a run has measured: the timeline with its waits, its figures, and learning over the epochs."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, stdev

import streamlit as st

from cutegen_core.records.gnn import EpochReport, RunResult
from cutegen_core.records.wording import sized
from cutegen_core.views import gnn
from pages.components.gnn import pictures
from pages.components.shared import data
from pages.components.shared.texts import heading, heard, note, quiet, table

_PLAIN = {"displayModeBar": False}


def duration(seconds: float) -> str:
    """Write a time span: "8.4 ms", "1.25 s", "12 s", "3 min 20 s", "2 h 5 min"."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 10:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent_of(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


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
        f"The trainer {wait.words} for {duration(wait.seconds)}, {100 * wait.share:.0f} % of the epoch."
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
    return f"{what} from {values[0]:.4g} in epoch {first.epoch} to {values[1]:.4g} in epoch {last.epoch}."


def render_figures(view: gnn.RunView) -> None:
    """Draw the table of figures, each with the device that it is from."""
    heading("Figures")
    rows = figure_rows(view)
    if rows:
        st.html(table(("", "value", "from"), rows, numbers_from=1))
    else:
        quiet("The figures come with the first finished epoch.")


def figure_rows(view: gnn.RunView) -> list[tuple[object, ...]]:
    """Return name, value and origin of every figure that the run has."""
    device, cpu = gnn.figure_device(view), "processor"
    rows: list[tuple[object, ...]] = []
    if found := gnn.figures(view):
        rows += [
            ("epoch, median", duration(found.epoch.seconds), device),
            ("prepare, per thread", duration(found.prepare), cpu),
            ("copy", duration(found.transfer), device),
            ("compute", duration(found.compute), device),
            ("P: epoch over its longest stage", f"{found.p:.2f}", device),
        ]
        if found.c is not None:
            rows.append(("C: epoch over compute only", f"{found.c:.2f}", device))
        if found.over_serial is not None:
            rows.append(("serial epoch over pipelined", f"{found.over_serial:.2f}", device))
        if found.edges_per_thread_s is not None:
            rows.append(("sampled edges per second and thread", sized(found.edges_per_thread_s), cpu))
    if view.result:
        rows += _accuracy_rows(view.result, device)
    return rows


def _accuracy_rows(result: RunResult, device: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    named = (
        ("test accuracy, sampled", result.sampled_accuracy, result.sampled_seconds),
        ("test accuracy, all neighbours", result.full_accuracy, result.full_seconds),
        ("test accuracy, features only", result.features_only_accuracy, None),
    )
    for name, share, seconds in named:
        if share is not None:
            took = f" in {duration(seconds)}" if seconds is not None else ""
            rows.append((name, f"{percent_of(share)}{took}", device))
    if len(result.accuracies) > 1:
        spread = f"{percent_of(mean(result.accuracies))} ± {100 * stdev(result.accuracies):.2f}"
        rows.append((f"test accuracy, mean of {len(result.accuracies)} trials", spread, device))
    return rows


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
        *((name, value) for name, value in machine.items()),
    ]  # fmt: skip
    st.html(table(("", "value"), rows))
    if view.result.kernel_note:
        quiet(f"The plugged kernel: {view.result.kernel_note}")
    for words in view.result.notes:
        quiet(words)
