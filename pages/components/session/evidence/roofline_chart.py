"""The roofline as a Plotly figure (Williams et al., "Roofline", CACM 2009), under peaks measured on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from cutegen_core.records.performance import Bound
from cutegen_core.records.wording import micros
from cutegen_core.views import SpeedRow, implied_peaks
from pages.components.shared.charts import AMBER, GREY, RED, SMALL, Figure, compact
from pages.components.shared.texts import in_chart

ROOM = 4.0
"""How far the axis goes on beyond the ridge and the points, as a factor."""


LEAST_HEIGHT = 20.0
"""The least range of the other axis, as a factor: less would stretch the slope out of recognition."""


class RooflinePoint(NamedTuple):
    """One time on the roofline."""

    name: str
    us: float
    color: str
    symbol: str


def roofline(
    bound: Bound, compulsory: Bound | None, points: Sequence[RooflinePoint], path: Sequence[SpeedRow]
) -> Figure:
    """Log-log: FLOP/s over FLOP/byte, under the measured ceilings. All points count the same work, the bound's.

    Args:
        compulsory: the other bound, drawn where a kernel that takes no longer would be; None where it is the same.
        path: earlier steps, joined in their order.
    """
    peaks = implied_peaks((bound, *([compulsory] if compulsory else [])))
    memory, compute = peaks["bytes_per_s"], peaks["flops_per_s"]
    ridge, at = compute / memory, bound.flops / bound.moved_bytes
    low, high = min(ridge, at) / ROOM, max(ridge, at) * ROOM
    figure = go.Figure(_ceiling(memory, compute, (low, ridge, high), bound.pipe))
    if path:
        figure.add_trace(_path(path, bound, at))
    for point in points:
        figure.add_trace(_point(point, bound, at))
    for one in (bound, compulsory):
        if one is not None:
            figure.add_trace(_roof_mark(one, bound, at))
    compact(figure, "", height=330)
    beneath = {"orientation": "h", "y": -0.28, "x": 0, "entrywidth": 0.48, "entrywidthmode": "fraction"}
    figure.update_layout(showlegend=True, legend={"font": SMALL, **beneath})
    ceiling = min(compute, memory * at)
    times = [p.us for p in points] + [r.latency_us for r in path]
    lowest, highest = (bound.flops / (us * 1e-6) for us in (max(times), min([*times, (compulsory or bound).us])))
    floor, top = min(lowest / 1.5, ceiling / 1.5, compute / LEAST_HEIGHT), 1.5 * max(compute, highest)
    figure.update_yaxes(type="log", title_text="FLOP/s", range=[math.log10(floor), math.log10(top)],
                        tickformat="~s", rangemode="normal", dtick="D2")  # fmt: skip
    return figure.update_xaxes(type="log", title_text="FLOP/byte", dtick="D2", tickformat="~g",
                               range=[math.log10(low), math.log10(high)])  # fmt: skip


def _ceiling(memory: float, compute: float, span: tuple[float, float, float], pipe: str) -> list[go.Scatter]:
    low, ridge, high = span
    return [
        go.Scatter(x=[low, ridge], y=[memory * low, compute], mode="lines", line={"color": AMBER, "width": 2},
                   name=f"memory {memory / 1e12:.3g} TB/s", hoverinfo="name"),
        go.Scatter(x=[ridge, high], y=[compute, compute], mode="lines",
                   line={"color": AMBER, "width": 2, "dash": "dash"},
                   name=f"{in_chart(pipe)} {compute / 1e12:.3g} TFLOP/s", hoverinfo="name"),
    ]  # fmt: skip


def _point(point: RooflinePoint, bound: Bound, at: float) -> go.Scatter:
    flops = bound.flops / (point.us * 1e-6)
    return go.Scatter(
        x=[at], y=[flops], mode="markers", name=in_chart(point.name),
        marker={"symbol": point.symbol, "size": 11, "color": point.color, "line": {"width": 1, "color": "#ffffff"}},
        hovertemplate=f"{in_chart(point.name)}: {micros(point.us)}, {flops / 1e12:.3g} TFLOP/s<extra></extra>",
    )  # fmt: skip


def _path(path: Sequence[SpeedRow], bound: Bound, at: float) -> go.Scatter:
    return go.Scatter(
        x=[at] * len(path), y=[bound.flops / (row.latency_us * 1e-6) for row in path], mode="lines+markers",
        name="optimization path", line={"width": 1, "color": GREY}, marker={"size": 5, "color": GREY},
        text=[f"step {row.step}: {micros(row.latency_us)}" for row in path], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _roof_mark(one: Bound, bound: Bound, at: float) -> go.Scatter:
    color = AMBER if one is bound else RED
    return go.Scatter(
        x=[at], y=[bound.flops / (one.us * 1e-6)], mode="markers", name=f"{in_chart(one.kind)} bound",
        marker={"symbol": "line-ew", "size": 18, "color": color, "line": {"width": 2, "color": color}},
        hovertemplate=f"{in_chart(one.kind)} bound: {micros(one.us)}, {one.by}<extra></extra>",
    )  # fmt: skip
