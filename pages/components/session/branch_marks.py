"""Draw the tree into the chart of latency: a line from every timed step to the kernel it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from cutegen_core.views import TreeRow
from pages.components.shared.charts import GREEN, GREY, SMALL, Figure

_MOST_WORDS = 8
"""The largest number of branches that get a label in the chart."""


def mark_branches(figure: Figure, tree: Sequence[TreeRow], latency_us: Mapping[int, float]) -> Figure:
    """Add the lines, with the path to the best broad, and "↰3" where a branch continues from step 3."""
    above = {row.number: row.parent for row in tree}
    ends = [(row, _timed(row.parent, above, latency_us)) for row in tree if row.number in latency_us]
    lines = [(row, parent) for row, parent in ends if parent]
    for on_best in (True, False):
        figure.add_trace(_lines([(row.number, parent) for row, parent in lines if row.on_best is on_best], latency_us,
                                on_best=on_best))  # fmt: skip
    # Under the points, which are clicked.
    figure.data = (*figure.data[-2:], *figure.data[:-2])
    branches = [(row, parent) for row, parent in lines if row.branches]
    if 0 < len(branches) <= _MOST_WORDS:
        figure.add_trace(_words(branches, latency_us))
    return figure


def _timed(parent: int, above: Mapping[int, int], latency_us: Mapping[int, float]) -> int:
    """Return the nearest timed ancestor, 0 where there is none."""
    while parent and parent not in latency_us:
        parent = above[parent]
    return parent


def _lines(ends: Sequence[tuple[int, int]], latency_us: Mapping[int, float], *, on_best: bool) -> go.Scatter:
    return go.Scatter(
        x=[x for number, parent in ends for x in (parent, number, None)],
        y=[y for number, parent in ends for y in (latency_us[parent], latency_us[number], None)],
        mode="lines", line={"color": GREEN if on_best else GREY, "width": 6 if on_best else 1},
        opacity=0.35 if on_best else 0.8, hoverinfo="skip",
    )  # fmt: skip


def _words(branches: Sequence[tuple[TreeRow, int]], latency_us: Mapping[int, float]) -> go.Scatter:
    return go.Scatter(
        x=[row.number for row, _ in branches], y=[latency_us[row.number] for row, _ in branches], mode="text",
        text=[f"↰{parent}" for _, parent in branches], textposition="top center", textfont=SMALL, hoverinfo="skip",
        cliponaxis=False,
    )  # fmt: skip
