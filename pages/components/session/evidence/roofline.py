"""The roofline pane: how much of what the device can do a kernel reaches, by two counts of its work."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.performance import BEST, CANDIDATE, COMPULSORY, GRAPH, Bound, WorkloadPerformance
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import called, micros
from cutegen_core.views import SpeedRow, share, suspect
from pages.components.session.evidence import roofline_chart
from pages.components.session.evidence.pane import PaneInput
from pages.components.shared import data
from pages.components.shared.charts import BLUE, GREEN, GREY
from pages.components.shared.texts import Html, escape_html, heading, heard, note, quiet, table

_SYMBOLS = ("square", "triangle-up", "diamond", "pentagon", "hexagon")


def render_roofline(given: PaneInput) -> None:
    """Draw bounds and points of every timed workload, with a path of the earlier steps on the first one."""
    trial = given.trial
    if trial.performance is None or not trial.performance.workloads:
        note("info", f"No roofline: the time was {views.untimed_text(trial)}.")
        return
    rows = views.speed_rows(given.store, given.view.state)
    earlier = [row for row in rows if row.step < given.tried.step.number]
    for number, workload in enumerate(trial.performance.workloads):
        heading(f"Workload {workload.workload}")
        if not workload.bounds:
            quiet("No bound: the work of this problem could not be counted.")
            continue
        _verdict(trial, workload)
        _chart(workload, earlier if number == 0 else ())
        st.html(_shares(workload))
        st.html(_bounds(workload.bounds, workload.candidate.median_us))
    quiet(
        "Ceilings are peaks measured on this device, not its data sheet. The graph's bound is all the reference does "
        "as written, perfectly fused; the compulsory one what no algorithm can avoid: each input byte that matters "
        "read once, each output byte beyond the L2 written once, at the most the device ever showed. A kernel may beat "
        "the first, by avoiding work; never the second."
    )


def _verdict(trial: Trial, workload: WorkloadPerformance) -> None:
    reached = share(workload)
    if reached is None:
        return
    took, bound = micros(workload.candidate.median_us), reached.bound
    if not suspect(trial, workload):
        next_to = "; the bound is" if reached.fraction > 1 else " of at least"
        st.html(f'<div class="cg-headline"><b>{escape_html(reached.words)}</b> <i>·</i> {took}{next_to} '
            f"{micros(bound.us)}</div>")  # fmt: skip
    if beaten := suspect(trial, workload):
        note("error", f"{views.doubt_text(trial, workload)} ({_counted(beaten)} at the measured peaks). Such a kernel "
             "does not do the work: a part is skipped, kept from an earlier run, or the count is wrong. It is never "
             "shown as a result.")  # fmt: skip
    elif reached.fraction > 1:
        why = f"It runs on faster units than {bound.pipe}, or does" if bound.by == "compute" else "It does"
        quiet(f"{why} less work than the reference as written, but not less than any kernel must.")


def _chart(workload: WorkloadPerformance, earlier: Sequence[SpeedRow]) -> None:
    graph, least = workload.bound(GRAPH), workload.bound(COMPULSORY)
    bound = graph or least
    if bound is None or not bound.flops or not bound.moved_bytes or not bound.memory_us or not bound.compute_us:
        quiet("Nothing is computed or nothing is moved, so there is no intensity to draw; see the table.")
        return
    points = [
        roofline_chart.RooflinePoint(called(t.contender), t.median_us,
                             BLUE if t.contender == CANDIDATE else GREEN if t.contender == BEST else GREY,
                             "circle" if t.contender == CANDIDATE else _SYMBOLS[i % len(_SYMBOLS)])
        for i, t in reversed(list(enumerate(workload.timings)))
    ]  # fmt: skip
    other = least if graph and least and least.us and least.us != graph.us else None
    figure = data.once(roofline_chart.roofline, bound, other, tuple(points), tuple(earlier))
    heard("Roofline: performance over intensity under the measured ceilings; the tables that follow have the numbers.")
    st.plotly_chart(figure, key=f"roofline-{workload.workload}", config={"displayModeBar": False})


def _shares(workload: WorkloadPerformance) -> str:
    """Return each contender's share of the display bound as bars: log axes leave little room between the points."""
    rows: list[tuple[object, ...]] = []
    for timing in workload.timings:
        reached = share(workload, timing.median_us)
        if reached:
            percent = 100 * reached.fraction
            bar = f'<span class="cg-bar" style="--share:{min(100.0, percent):.0f}%">{percent:.0f} %</span>'
            rows.append((called(timing.contender), Html(bar), micros(timing.median_us)))
    return table(("", "share of the bound", "median"), rows, numbers_from=2)


def _bounds(bounds: Sequence[Bound], took_us: float) -> str:
    rows: list[tuple[object, ...]] = [
        (
            bound.kind, f"{bound.moved_bytes / 1e6:.4g}", f"{bound.memory_us:.4g}", f"{bound.flops / 1e9:.4g}",
            bound.pipe, f"{bound.compute_us:.4g}", f"{100 * bound.us / took_us:.0f} % of {bound.by}",
        )
        for bound in bounds
    ]  # fmt: skip
    return table(("bound", "MB moved", "µs", "GFLOP", "pipe", "µs", "reached"), rows)


def _counted(bound: Bound) -> str:
    return f"{bound.moved_bytes / 1e6:.4g} MB moved, {bound.flops / 1e9:.4g} GFLOP on {bound.pipe}"
