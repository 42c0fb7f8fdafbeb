"""Draw Plotly figures. Every text from outside goes through `in_chart`, since Plotly reads some HTML in labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from cutegen_core.records.trial import Comparison, Status
from cutegen_core.records.wording import lowered
from cutegen_core.views import MixRow, StepRow
from pages.components.shared.texts import in_chart

GREEN, RED, BLUE, GREY, AMBER = "#2ea043", "#e5534b", "#4493f8", "#8b949e", "#d29922"
SMALL = {"size": 12}
SERIES = ("#4493f8", "#2ea043", "#d29922", "#a371f7", "#e5534b", "#39c5cf", "#db61a2", "#8b949e")
SINGLE_TICKS = 12

Figure = go.Figure


def over_steps(rows: Sequence[StepRow], attribute: str, unit: str, shown: int | None) -> Figure:
    """Plot one number per step; shape and colour of a point show its verdict."""
    tried = [row for row in rows if row.status is not None and row.status not in _NOT_COMPILED]
    passed = [row.status is Status.PASSED for row in tried]
    figure = go.Figure(
        go.Scatter(
            x=[row.number for row in tried],
            y=[getattr(row, attribute) for row in tried],
            mode="lines+markers",
            line={"width": 1, "color": GREY},
            marker={
                "symbol": ["circle" if ok else "x" for ok in passed],
                "color": [GREEN if ok else RED for ok in passed],
                "size": [12 if row.number == shown else 8 for row in tried],
            },
            text=[f"{in_chart(row.idea[:60])}<br>{in_chart(lowered(row.status))}" for row in tried],
            hovertemplate="step %{x}: %{y} " + in_chart(unit) + "<br>%{text}<extra></extra>",
        )
    )
    best = next((row.number for row in tried if row.is_best), None)
    if best is not None:
        figure.add_vline(x=best, line={"dash": "dot", "width": 1, "color": GREEN})
    dense = not rows or rows[-1].number > SINGLE_TICKS
    return compact(figure, unit).update_xaxes(tickvals=None if dense else [row.number for row in rows])


def mix_over_steps(rows: Sequence[MixRow]) -> Figure:
    """Plot the instruction mix of every compiled step as stacked bars, with the smaller classes as "other"."""
    totals: dict[str, int] = {}
    for row in rows:
        for name, count in row.mix.items():
            totals[name] = totals.get(name, 0) + count
    names = sorted(totals, key=lambda name: -totals[name])[: len(SERIES) - 1]
    series = {name: [row.mix.get(name, 0) for row in rows] for name in names}
    series["other"] = [sum(c for n, c in row.mix.items() if n not in names) for row in rows]
    bars = [
        go.Bar(x=[row.step for row in rows], y=values, name=in_chart(name), marker={"color": color})
        for (name, values), color in zip(series.items(), SERIES, strict=False)
    ]
    figure = compact(go.Figure(bars), "instructions")
    return figure.update_layout(barmode="stack", showlegend=True, legend={"font": SMALL, "itemwidth": 30})


def no_latency(rows: Sequence[StepRow], why: str) -> Figure:
    """Plot an empty latency axis that says why it is empty."""
    figure = go.Figure(go.Scatter(x=[row.number for row in rows], y=[None] * len(rows)))
    figure.add_annotation(text=why.replace(": ", ":<br>"), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return compact(figure, "latency, ms").update_yaxes(showticklabels=False, range=[0, 1])


def mix_bars(mixes: dict[str, dict[str, int]], top: int = 12) -> Figure:
    """Plot instruction counts by class, one bar per candidate."""
    totals: dict[str, int] = {}
    for mix in mixes.values():
        for name, count in mix.items():
            totals[name] = max(totals.get(name, 0), count)
    names = sorted(totals, key=lambda name: totals[name])[-top:]
    bars = [
        go.Bar(
            x=[mix.get(name, 0) for name in names], y=[in_chart(n) for n in names], name=in_chart(label),
            orientation="h", marker={"color": color}, hovertemplate="%{y}: %{x}<extra></extra>",
        )
        for (label, mix), color in zip(mixes.items(), (BLUE, GREY), strict=False)
    ]  # fmt: skip
    figure = compact(go.Figure(bars), "", height=40 + 19 * len(names))
    figure.update_layout(showlegend=len(mixes) > 1, barmode="group", bargap=0.25)
    return figure.update_xaxes(dtick=None, title=None).update_yaxes(title=None)


def mix_words(mixes: dict[str, dict[str, int]], top: int = 12) -> str:
    """Write in words what `mix_bars` plots."""
    told = (
        ", ".join(f"{name} {mix[name]}" for name in sorted(mix, key=lambda n: -mix[n])[:top]) for mix in mixes.values()
    )
    return "Instruction mix. " + " ".join(f"{label}: {counts}." for label, counts in zip(mixes, told, strict=True))


def heatmap(comparison: Comparison) -> Figure:
    """Plot where the output is wrong: the share of wrong elements per cell of the folded output."""
    rows, columns = len(comparison.heatmap), len(comparison.heatmap[0])
    figure = go.Figure(
        go.Heatmap(
            z=comparison.heatmap,
            zmin=0,
            zmax=1,
            colorscale=[[0, "rgba(128,140,155,0.12)"], [0.001, "#f2b8b5"], [1, "#c22a2a"]],
            xgap=1,
            ygap=1,
            colorbar={
                "thickness": 8,
                "title": {"text": "wrong", "font": SMALL},
                "tickformat": ".0%",
                "tickfont": SMALL,
            },
            hovertemplate="cell row %{y}, column %{x}: %{z:.0%} wrong<extra></extra>",
        )
    )
    compact(figure, "", height=int(min(320, max(110, 60 + 14 * rows))))
    figure.update_yaxes(autorange="reversed", title=None, showticklabels=rows > 1, dtick=max(1, rows // 4))
    return figure.update_xaxes(dtick=max(1, columns // 8), title=None)


_NOT_COMPILED = (
    Status.UNPARSED, Status.PATCH_FAILED, Status.REJECTED, Status.COMPILE_ERROR, Status.COMPILE_LIMIT,
)  # fmt: skip


def compact(figure: Figure, y_title: str, height: int = 170) -> Figure:
    """Give a figure the common look: small type, no legend, no dragging; `height` in px."""
    axis: dict[str, Any] = {"tickfont": SMALL, "title": {"font": SMALL}}
    figure.update_layout(height=height, margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False, dragmode=False,
                         legend_font=SMALL)  # fmt: skip
    figure.update_xaxes(**axis, title_text="step", tickformat="d")
    return figure.update_yaxes(**axis, title_text=y_title, rangemode="tozero")
