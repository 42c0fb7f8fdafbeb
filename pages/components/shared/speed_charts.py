"""Draw Plotly figures of measured times: contenders with their samples, latency over steps, a sweep and its rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from cutegen_core.records.performance import CANDIDATE, Timing, WorkloadPerformance
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import called, lowered, micros, pace, percent
from cutegen_core.views import ShapeTable, SpeedRow, StepRow
from pages.components.shared.charts import AMBER, BLUE, GREEN, GREY, RED, SERIES, SMALL, Figure, compact
from pages.components.shared.texts import in_chart

if TYPE_CHECKING:  # it imports the evaluator, which takes a while to load
    from cutegen_core.evaluate.sweep import SweepTable

STEPS_PX, SHAPES_PX = 220, 330
LOG_FROM = 8.0
"""Use a logarithmic axis where the slowest time is more than this many times the fastest."""
MOST_DECADES = 1.7
"""Of such an axis, up to which there is room for more labels than powers of ten."""


def contenders(workload: WorkloadPerformance, *, believed: bool) -> Figure:
    """Plot median, p10 and p90 of every contender above its samples, and the candidate's A/A noise as a band.

    Within a row the samples run downwards in the order taken, so that a drift shows as a slope.

    Args:
        believed: False leaves out the comparisons, since a SUSPECT time is no result.
    """
    timings = workload.timings
    figure = go.Figure()
    for row, timing in enumerate(timings):
        color = BLUE if timing.contender == CANDIDATE else GREY
        figure.add_trace(_strip(timing, row, color))
        figure.add_trace(_median(timing, row, color))
    middle = workload.candidate.median_us
    figure.add_vrect(
        x0=middle * (1 - workload.aa_noise), x1=middle * (1 + workload.aa_noise), fillcolor=BLUE, opacity=0.18,
        line_width=0, layer="below",
    )  # fmt: skip
    compact(figure, "", height=46 + 52 * len(timings))
    labels = [_label(workload, timing, believed) for timing in timings]
    figure.update_yaxes(
        tickvals=list(range(len(timings))), ticktext=labels, range=[len(timings) - 0.45, -0.55], rangemode="normal",
        showgrid=False, zeroline=False,
    )  # fmt: skip
    return figure.update_xaxes(title_text="device time, µs", tickformat="~g", dtick=None)


def beside(one: Timing, other: Timing) -> Figure:
    """Plot two candidates with their samples, the second in colour."""
    figure = go.Figure()
    for row, (timing, color) in enumerate(((one, GREY), (other, BLUE))):
        figure.add_trace(_strip(timing, row, color))
        figure.add_trace(_median(timing, row, color))
    compact(figure, "", height=150)
    names = [in_chart(one.contender), in_chart(other.contender)]
    figure.update_yaxes(tickvals=[0, 1], ticktext=names, range=[1.55, -0.55], rangemode="normal", showgrid=False,
                        zeroline=False)  # fmt: skip
    return figure.update_xaxes(title_text="device time, µs", tickformat="~g", dtick=None)


def _label(workload: WorkloadPerformance, timing: Timing, believed: bool) -> str:
    speedup = workload.speedup(timing.contender) if believed else None
    below = f"<br><b>{pace(speedup)}</b>" if speedup else ""
    return in_chart(called(timing.contender)) + below


def _strip(timing: Timing, row: int, color: str) -> go.Scatter:
    count = max(1, len(timing.samples_us) - 1)
    return go.Scatter(
        x=timing.samples_us, y=[row + 0.05 + 0.33 * i / count for i in range(len(timing.samples_us))], mode="markers",
        marker={"size": 3, "color": color, "opacity": 0.45},
        hovertemplate="sample %{pointNumber}: %{x:.4g} µs<extra></extra>",
    )  # fmt: skip


def _median(timing: Timing, row: int, color: str) -> go.Scatter:
    words = f"{timing.contender}: median {micros(timing.median_us)}, p10 {timing.p10_us:.4g}, p90 {timing.p90_us:.4g}"
    return go.Scatter(
        x=[timing.median_us], y=[row - 0.14], mode="markers", marker={"symbol": "diamond", "size": 9, "color": color},
        error_x={"type": "data", "symmetric": False, "array": [timing.p90_us - timing.median_us],
                 "arrayminus": [timing.median_us - timing.p10_us], "thickness": 1.5, "width": 5},
        hovertemplate=f"{in_chart(words)}<extra></extra>",
    )  # fmt: skip


def latency_over_steps(rows: Sequence[StepRow], speeds: Sequence[SpeedRow], shown: int | None) -> Figure:
    """Plot latency, p10 and p90 of every timed step, the best so far (promoted) and the bound; failures at the edge."""
    steps = {row.number: row for row in rows}
    top = 1.06 * max(s.p90_us for s in speeds)
    figure = go.Figure(_best_so_far(speeds, steps))
    figure.add_trace(_measured(speeds, steps, shown))
    failed = [r for r in rows if r.status not in (None, Status.PASSED) and all(s.step != r.number for s in speeds)]
    figure.add_trace(
        go.Scatter(
            x=[r.number for r in failed], y=[top] * len(failed), mode="markers",
            marker={"symbol": "x", "size": [11 if r.number == shown else 7 for r in failed], "color": RED},
            text=[_hover(r) for r in failed], hovertemplate="step %{x}: %{text}<extra></extra>",
        )
    )  # fmt: skip
    last = speeds[-1]
    lines = {"bound": last.bound_us, last.against.baseline if last.against else "": last.baseline_us}
    compact(figure, "latency, µs", height=STEPS_PX)
    lowest = min([s.p10_us for s in speeds] + [v for v in lines.values() if v])
    log = top > LOG_FROM * lowest
    _targets(figure, lines, log=log)
    bounds = [(0.6 if log else 0.94) * lowest, 1.03 * top]
    decades = math.log10(bounds[1] / bounds[0])
    ticks = "D2" if decades < MOST_DECADES else 1  # 2 and 5 have labels, too, while there is room
    scale = {"type": "log", "dtick": ticks, "range": [*map(math.log10, bounds)]} if log else {"range": bounds}
    figure.update_yaxes(rangemode="normal", tickformat=",.12~g", **scale)
    last_step = rows[-1].number
    return figure.update_xaxes(dtick=1 if last_step <= 12 else None, range=[0.4, last_step + 0.6])


def _measured(speeds: Sequence[SpeedRow], steps: Mapping[int, StepRow], shown: int | None) -> go.Scatter:
    passed = [steps[s.step].status is Status.PASSED for s in speeds]
    return go.Scatter(
        x=[s.step for s in speeds], y=[s.latency_us for s in speeds], mode="markers",
        error_y={"type": "data", "symmetric": False, "array": [s.p90_us - s.latency_us for s in speeds],
                 "arrayminus": [s.latency_us - s.p10_us for s in speeds], "thickness": 1, "width": 2, "color": GREY},
        marker={"symbol": ["circle" if ok else "x" for ok in passed], "color": [BLUE if ok else RED for ok in passed],
                "size": [12 if s.step == shown else 7 for s in speeds]},
        text=[_hover(steps[s.step], s) for s in speeds], hovertemplate="step %{x}: %{text}<extra></extra>",
    )  # fmt: skip


def _best_so_far(speeds: Sequence[SpeedRow], steps: Mapping[int, StepRow]) -> go.Scatter:
    best: list[float | None] = []
    for row in speeds:
        before = best[-1] if best else None
        lower = before is None or row.latency_us < before
        best.append(row.latency_us if steps[row.step].was_best and lower else before)
    return go.Scatter(x=[s.step for s in speeds], y=best, mode="lines", hoverinfo="skip",
                      line={"shape": "hv", "width": 1.5, "color": GREEN})  # fmt: skip


def _targets(figure: Figure, lines: Mapping[str, float | None], *, log: bool) -> None:
    highest = max((value for value in lines.values() if value), default=0.0)
    for name, value in lines.items():
        if not value:
            continue
        color, dash = (AMBER, "dash") if name == "bound" else (GREY, "dot")
        figure.add_hline(y=value, line={"color": color, "dash": dash, "width": 1})
        # An annotation's place on a logarithmic axis is the logarithm, a line's is the value.
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=math.log10(value) if log else value, showarrow=False, font=SMALL,
            yanchor="bottom" if value == highest else "top", text=f"{in_chart(name)} {value:.4g}",
        )  # fmt: skip


def _hover(row: StepRow, speed: SpeedRow | None = None) -> str:
    noise = f" ±{percent(speed.noise)}" if speed else ""
    took = f"{micros(speed.latency_us)}{noise}, " if speed else ""
    return f"{took}{in_chart(lowered(row.status))}<br>{in_chart(row.idea[:60])}"


def shapes_over_steps(table: ShapeTable) -> Figure:
    """Plot every shape's time over the steps as a line, and its floor as a dashed one of the same colour."""
    columns = [column for column in table.columns if column.cells]
    names = [in_chart("existing" if column.is_existing else str(column.step)) for column in columns]
    figure = go.Figure()
    for shape, color in zip(table.rows, cycle(SERIES), strict=False):
        cells = [column.cells.get(shape) for column in columns]
        label = in_chart(shape)
        figure.add_trace(go.Scatter(
            x=names, y=[cell.us if cell else None for cell in cells], name=label, mode="lines+markers",
            connectgaps=True, line={"width": 1.5, "color": color},
            hovertemplate=f"{label}, step %{{x}}: %{{y:.4g}} µs<extra></extra>",
            marker={"size": [11 if column.is_best else 6 for column in columns],
                    "symbol": ["star" if column.is_best else "circle" for column in columns]},
        ))  # fmt: skip
        floors = [cell.floor_us if cell else None for cell in cells]
        if any(floors):
            figure.add_trace(go.Scatter(
                x=names, y=floors, mode="lines", line={"width": 1, "color": color, "dash": "dash"}, showlegend=False,
                connectgaps=True, hovertemplate=f"floor of {label}: %{{y:.4g}} µs<extra></extra>",
            ))  # fmt: skip
    compact(figure, "time, µs", height=SHAPES_PX)
    figure.update_layout(showlegend=True, legend={"font": SMALL, "orientation": "h", "y": -0.22})
    figure.update_xaxes(type="category", dtick=None)
    return figure.update_yaxes(type="log", rangemode="normal", tickformat="~g")


def sweep(table: SweepTable) -> Figure:
    """Plot the latency of every timed combination, fastest first, and name the chosen and the default one."""
    timed = [(i, row) for i, row in enumerate(table.rows) if row.latency_ms is not None]
    timed.sort(key=lambda pair: -(pair[1].latency_ms or 0.0))
    names = [", ".join(f"{n}={v}" for n, v in row.params.items()) for _, row in timed]
    marks = [("  ★" if i == table.chosen else "") + ("  default" if i == 0 else "") for i, _ in timed]
    took = [1000 * (row.latency_ms or 0.0) for _, row in timed]
    figure = go.Figure(
        go.Scatter(
            x=took, y=list(range(len(timed))), mode="markers+text", textposition="middle right", cliponaxis=False,
            text=[f"{value:.4g}{mark}" for value, mark in zip(took, marks, strict=True)], textfont=SMALL,
            marker={"size": 9, "symbol": ["star" if i == table.chosen else "circle" for i, _ in timed],
                    "color": [GREEN if i == table.chosen else BLUE for i, _ in timed]},
            hovertemplate="%{x:.4g} µs<extra></extra>",
        )
    )  # fmt: skip
    compact(figure, "", height=50 + 22 * len(timed))
    figure.update_yaxes(tickvals=list(range(len(timed))), ticktext=[in_chart(n) for n in names], rangemode="normal")
    room = (max(took) - min(took) or max(took)) * 0.3
    return figure.update_xaxes(title_text="device time, µs", dtick=None, tickformat="~g",
                               range=[min(took) - room / 3, max(took) + room])  # fmt: skip


def sweep_rounds(table: SweepTable) -> Figure:
    """Plot every point's time after each round in which it was timed; a line ends where the point was left out."""
    figure = go.Figure()
    timed = [(i, row) for i, row in enumerate(table.rows) if row.raced_us]
    # The choice and the defaults come last, so that no other line covers them.
    for index, row in sorted(timed, key=lambda pair: (pair[0] == table.chosen, pair[0] == 0)):
        name = in_chart(", ".join(f"{n}={v}" for n, v in row.params.items()))
        marks = ["★ "] if index == table.chosen else []
        marks += ["default "] if index == 0 else []
        color = GREEN if index == table.chosen else AMBER if index == 0 else GREY
        figure.add_trace(go.Scatter(
            x=list(range(1, len(row.raced_us) + 1)), y=row.raced_us, mode="lines+markers+text",
            line={"width": 2.5 if marks else 1, "color": color}, cliponaxis=False,
            marker={"size": [4] * (len(row.raced_us) - 1) + [9 if marks else 6], "color": color},
            text=[""] * (len(row.raced_us) - 1) + ["".join(marks)], textposition="middle right", textfont=SMALL,
            hovertemplate=f"{name}, round %{{x}}: %{{y:.4g}} µs<extra></extra>",
        ))  # fmt: skip
    compact(figure, "time so far, µs", height=SHAPES_PX)
    rounds = max((len(row.raced_us) for _, row in timed), default=1)
    times = [us for _, row in timed for us in row.raced_us]
    wide = bool(times) and max(times) > LOG_FROM * min(times)
    figure.update_yaxes(type="log" if wide else "linear", rangemode="normal", tickformat="~g")
    return figure.update_xaxes(title_text="round", dtick=1, range=[0.8, rounds + 0.6])
