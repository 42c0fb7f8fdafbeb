"""Draw the pictures of a bench: speedups, shares of the bound, the fast_p curve, and CuTe features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from cutegen_core import views
from cutegen_core.evaluate.timing.statistics import fast_p
from cutegen_core.views import BenchFigures, BenchLine
from pages.components.shared.charts import AMBER, BLUE, GREEN, GREY, SINGLE_TICKS, SMALL, Figure, compact
from pages.components.shared.texts import in_chart

COLOURS = dict(zip(views.BASELINES, (BLUE, GREEN, AMBER), strict=True))
SYMBOLS = dict(zip(views.BASELINES, ("circle", "diamond", "square"), strict=True))
_ROW_PX, _LEAST_PX, _NAMED, _LONGEST = 21, 150, 40, 36
_FROM, _TO = 0.3, 8.0
_ABOVE = {"font": SMALL, "orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "entrywidth": 110}
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 5, 8, 16)


def speedups(lines: tuple[BenchLine, ...]) -> Figure:
    """Plot each problem's speedup against every baseline, the slowest at the bottom."""
    ordered = sorted((line for line in lines if line.speedups), key=lambda line: max(line.speedups.values()))
    figure = go.Figure()
    for name in views.BASELINES:
        mine = [(place, line) for place, line in enumerate(ordered) if name in line.speedups]
        if mine:
            figure.add_trace(go.Scatter(
                x=[line.speedups[name] for _, line in mine], y=[place for place, _ in mine], mode="markers", name=name,
                marker={"color": COLOURS[name], "size": 8, "symbol": SYMBOLS[name]},
                text=[in_chart(line.problem) for _, line in mine],
                hovertemplate="%{text}: %{x:.2f}x<extra>" + f"vs {in_chart(name)}</extra>",
            ))  # fmt: skip
    figure.add_vline(x=1, line={"width": 1, "color": GREY, "dash": "dot"})
    _per_problem(figure, ordered)
    return figure.update_xaxes(
        title_text="times as fast", type="log", tickvals=_TICKS, ticktext=[f"{t:g}x" for t in _TICKS]
    )


def speedup_words(lines: Sequence[BenchLine]) -> str:
    """Write in words what `speedups` plots."""
    told = (
        f"{line.problem} " + ", ".join(f"{v:.2f}x {k}" for k, v in line.speedups.items())
        for line in lines
        if line.speedups
    )
    return f"Speedups. {'; '.join(told)}."


def shares(lines: tuple[BenchLine, ...]) -> Figure:
    """Plot each problem's share of its bound as a bar, the smallest at the bottom."""
    ordered = sorted((line for line in lines if line.share), key=lambda line: line.share or 0.0)
    figure = go.Figure(go.Bar(
        x=[100 * (line.share or 0.0) for line in ordered], y=list(range(len(ordered))), orientation="h",
        marker={"color": BLUE}, text=[in_chart(line.problem) for line in ordered], textposition="none",
        hovertemplate="%{text}: %{x:.0f} % of the bound<extra></extra>",
    ))  # fmt: skip
    _per_problem(figure, ordered)
    return figure.update_layout(bargap=0.3, showlegend=False).update_xaxes(
        title_text="% of the bound", rangemode="tozero"
    )


def share_words(lines: Sequence[BenchLine]) -> str:
    """Write in words what `shares` plots."""
    return (
        "Share of the bound. " + "; ".join(f"{one.problem} {100 * one.share:.0f} %" for one in lines if one.share) + "."
    )


def fast_curve(lines: tuple[BenchLine, ...]) -> Figure:
    """Plot the share of all problems that are more than p times as fast, over p."""
    figure = go.Figure()
    for name in _timed(lines):
        found = {line.problem: line.speedups.get(name) for line in lines}
        points = sorted({_FROM, _TO, *(s for s in found.values() if s and _FROM < s < _TO)})
        figure.add_trace(go.Scatter(
            x=points, y=[100 * fast_p(found, p) for p in points], mode="lines", name=name,
            line={"color": COLOURS[name], "width": 2, "shape": "hv"},
            hovertemplate="more than %{x:.2g}x: %{y:.0f} % of the problems<extra>" + f"vs {in_chart(name)}</extra>",
        ))  # fmt: skip
    figure.add_vline(x=1, line={"width": 1, "color": GREY, "dash": "dot"})
    compact(figure, "% of all problems", height=220)
    figure.update_layout(showlegend=True, legend=_ABOVE)
    figure.update_yaxes(range=[0, 102])
    return figure.update_xaxes(
        title_text="p, times as fast", type="log", tickvals=_TICKS, ticktext=[f"{t:g}" for t in _TICKS]
    )


def fast_words(lines: Sequence[BenchLine]) -> str:
    """Write in words what `fast_curve` plots."""
    told = []
    for name in _timed(lines):
        found = {line.problem: line.speedups.get(name) for line in lines}
        told.append(f"vs {name}: " + ", ".join(f"fast_{p:g} {100 * fast_p(found, p):.0f} %" for p in views.FAST_P))
    return f"fast_p. {'; '.join(told)}."


def features(figures: BenchFigures) -> Figure:
    """Plot the number of problems whose best kernel uses a CuTe feature."""
    ordered = sorted(figures.features.items(), key=lambda item: item[1])
    figure = go.Figure(go.Bar(
        x=[count for _, count in ordered], y=[in_chart(name) for name, _ in ordered], orientation="h",
        marker={"color": BLUE}, hovertemplate="%{y}: %{x} problems<extra></extra>",
    ))  # fmt: skip
    compact(figure, "", height=80 + 21 * len(ordered))
    figure.update_layout(margin_l=_room(figures.features))
    figure.update_yaxes(title=None)
    apart = 1 if max(figures.features.values(), default=0) <= SINGLE_TICKS else None  # less would repeat a number
    return figure.update_xaxes(title_text="problems", dtick=apart, automargin=True)


def feature_words(figures: BenchFigures) -> str:
    """Write in words what `features` plots."""
    return ", ".join(f"{name} {count}" for name, count in sorted(figures.features.items(), key=lambda item: -item[1]))


def _timed(lines: Sequence[BenchLine]) -> list[str]:
    return [name for name in views.BASELINES if any(name in line.speedups for line in lines)]


def _room(labels: Iterable[str]) -> int:
    """Return the width of an axis' labels in the type of large windows (`page.css`), which Plotly does not measure."""
    return 14 + 8 * max(map(len, labels), default=0)


def _per_problem(figure: Figure, ordered: Sequence[BenchLine]) -> None:
    """Give a figure a row per problem; names where they have room."""
    named = len(ordered) <= _NAMED
    compact(figure, "", height=max(_LEAST_PX, 70 + (_ROW_PX if named else 6) * len(ordered)))
    names = [line.problem[:_LONGEST] for line in ordered] if named else []
    figure.update_layout(showlegend=True, legend=_ABOVE, margin_l=_room(names))
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=[in_chart(name) for name in names], title=None,
                        range=[-0.7, len(ordered) - 0.3], rangemode="normal")  # fmt: skip
    figure.update_xaxes(tickformat="~g", dtick=None)
