"""The timing pane: every workload's contenders with their samples, the comparison in words, and the conditions."""

from __future__ import annotations

import streamlit as st

from cutegen_core.records.performance import Conditions, Speedup, Timing, Word, WorkloadPerformance
from cutegen_core.records.trial import Stage, StageStatus, Trial
from cutegen_core.records.wording import NEEDS_GPU, micros, percent, ratio
from cutegen_core.views import share, strongest, suspect
from cutegen_core.views.conditions import condition_rows
from pages.components.shared import data, marks, speed_charts
from pages.components.shared.speed_charts import CALLED
from pages.components.shared.texts import Html, escape_html, heading, heard, note, quiet, table

STABLE = 0.02
"""A median that moves more than this in a fresh process is not one to build on."""
_CONFIG = {"displayModeBar": False}
_SHAPES = {Word.FASTER: "▲", Word.SAME: "=", Word.SLOWER: "▼"}
_KINDS = {Word.FASTER: "passed", Word.SAME: "", Word.SLOWER: "failed"}


def render_timing(trial: Trial) -> None:
    """Everything the BENCHMARK stage found."""
    performance = trial.performance
    if performance is None or not performance.workloads:
        _not_timed(trial)
        return
    marks.render_explained(trial)
    if trial.cached:
        quiet("From the cache: measured when this kernel was first tried. “Best so far” is what was the best then.")
    for workload in performance.workloads:
        _workload(trial, workload)


def _not_timed(trial: Trial) -> None:
    stage = next((r for r in trial.stages if r.stage is Stage.BENCHMARK), None)
    if trial.executor == "cpu":
        note("info", f"Not timed: {NEEDS_GPU}.")
        quiet("The seconds of the other panes are the emulator's. Start a session on a machine with a GPU to time it.")
    elif stage is not None and stage.status is StageStatus.FAILED:
        note("error", f"Not timed: {trial.message}")
    else:
        note("info", f"Not timed: {(stage.note if stage else '') or trial.message or 'the benchmark was skipped'}.")


def _workload(trial: Trial, workload: WorkloadPerformance) -> None:
    heading(f"Workload {workload.workload}")
    bound = suspect(trial, workload)
    if bound is None:
        st.html(_headline(workload))
    else:
        took = micros(workload.candidate.median_us)
        note("error", f"SUSPECT: {took} is less than the {micros(bound.us)} that the work itself takes on this device. "
             "It is no result; the roofline pane tells how the work was counted.")  # fmt: skip
    figure = data.once(speed_charts.contenders, workload, believed=bound is None)
    heard("Chart of the medians with p10 and p90, above the samples; the numbers are in the table that follows.")
    st.plotly_chart(figure, key=f"timing-{workload.workload}", config=_CONFIG)
    st.html(_timings(workload))
    if workload.speedups and bound is None:
        st.html(_speedups(workload))
    for untimed in workload.untimed:
        quiet(f"– {untimed.contender} was not timed: {untimed.reason}")
    quiet(
        f"A/A noise ±{percent(workload.aa_noise)}: a comparison of two equal kernels differs by as much here, drawn as "
        "the band. FASTER and SLOWER are said only where the 95 % interval lies outside it. Diamonds are medians with "
        "p10 and p90; below each the samples, downwards in the order taken."
    )
    _remeasured(workload)
    heading("Conditions")
    st.html(_conditions(workload.conditions))


def _headline(workload: WorkloadPerformance) -> str:
    timing, against, reached = workload.candidate, strongest(workload), share(workload)
    parts = [f"<b>{micros(timing.median_us)}</b> ±{percent(timing.noise)}"]
    if against:
        parts.append(f"{ratio(against.ratio)} {escape_html(against.baseline)} {_word(against)}")
    if reached:
        parts.append(escape_html(reached.words))
        parts.append(f"{reached.bound.moved_bytes / timing.median_us / 1e6:.3g} TB/s")
        if reached.bound.flops:
            parts.append(f"{reached.bound.flops / timing.median_us / 1e6:.3g} TFLOP/s")
    return f'<div class="cg-headline">{" <i>·</i> ".join(parts)}</div>'


def _word(speedup: Speedup) -> str:
    return f'<span class="cg-{_KINDS[speedup.word]}">{_SHAPES[speedup.word]} {speedup.word}</span>'


def _timings(workload: WorkloadPerformance) -> str:
    rows: list[tuple[object, ...]] = [_row(timing) for timing in workload.timings]
    return table(("µs", "median", "p10", "p90", "A/A", "n", "dropped", "method"), rows)


def _row(timing: Timing) -> tuple[object, ...]:
    name = CALLED.get(timing.contender, timing.contender)
    numbers = (f"{timing.median_us:.5g}", f"{timing.p10_us:.5g}", f"{timing.p90_us:.5g}", percent(timing.noise))
    return (name, *numbers, timing.n, timing.dropped, timing.method)


def _speedups(workload: WorkloadPerformance) -> str:
    rows: list[tuple[object, ...]] = [
        (CALLED.get(s.baseline, s.baseline), f"{s.ratio:.3f}x", f"{s.low:.3f} to {s.high:.3f}", Html(_word(s)))
        for s in workload.speedups
    ]
    return table(("against", "speedup", "95 % interval", "in a word"), rows)


def _remeasured(workload: WorkloadPerformance) -> None:
    again, median = workload.remeasured_us, workload.candidate.median_us
    if again is None:
        quiet("Not measured again in a fresh process.")
        return
    moved = again / median - 1
    stable = abs(moved) <= STABLE
    said = f"Measured again in a fresh process: {micros(again)}, {100 * moved:+.2g} %"
    quiet(f"{'✓' if stable else '▲'} {said}{'' if stable else ', more than 2 %: UNSTABLE'}")


def _conditions(found: Conditions) -> str:
    rows: list[tuple[object, ...]] = [
        (row.name, Html(f'<span class="cg-warning">▲ {escape_html(row.text)}</span>') if row.doubtful else row.text)
        for row in condition_rows(found)
    ]
    return table(("condition", ""), rows, numbers_from=9)
