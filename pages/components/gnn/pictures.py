"""Draw the pictures of a run: the stages over time, loss and accuracy over epochs, epoch time over ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from cutegen_core.records.gnn import BatchStage, EpochReport, Span
from cutegen_core.views.gnn import RankPoint
from pages.components.shared.charts import AMBER, BLUE, GREEN, GREY, SERIES, SMALL, Figure, compact
from pages.components.shared.texts import in_chart

COLOURS = {BatchStage.PREPARE: BLUE, BatchStage.TRANSFER: AMBER, BatchStage.COMPUTE: GREEN}
STAGE_WORDS = {
    BatchStage.PREPARE: "prepare (sample and slice)",
    BatchStage.TRANSFER: "copy",
    BatchStage.COMPUTE: "compute",
}
_EDGES = {BatchStage.PREPARE: BLUE, BatchStage.TRANSFER: AMBER, BatchStage.COMPUTE: "rgba(0,0,0,0.35)"}
"""Computing follows computing, so an edge parts it; what is short needs its colour to be seen."""
_LANE_PX, _LEAST_PX, _MOST_LANES = 30, 150, 24
_NARROWEST_LABEL = 0.02
"""A bar gets its number where it is at least this share of the picture wide."""


def lanes(spans: Sequence[Span]) -> list[str]:
    """Return the lanes in the order of the stages, each once."""
    order = list(BatchStage)
    first = sorted(spans, key=lambda span: (order.index(span.stage), len(span.lane), span.lane))
    return list(dict.fromkeys(span.lane for span in first))[:_MOST_LANES]


def timeline(spans: tuple[Span, ...]) -> Figure:
    """Plot the stages of an epoch's first batches as bars, a lane per thread or stream; numbers are batches."""
    names = lanes(spans)
    end = max(span.end_s for span in spans)
    figure = go.Figure()
    for stage in BatchStage:
        mine = [span for span in spans if span.stage is stage and span.lane in names]
        if mine:
            figure.add_trace(_bars(stage, mine, end))
    compact(figure, "", height=max(_LEAST_PX, 66 + _LANE_PX * len(names)))
    figure.update_layout(
        barmode="overlay", bargap=0.28, showlegend=True,
        legend={"font": SMALL, "orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=[in_chart(n) for n in reversed(names)], title=None)
    return figure.update_xaxes(title_text="ms since the epoch began", tickformat="~g", dtick=None)


def _bars(stage: BatchStage, spans: Sequence[Span], end: float) -> go.Bar:
    return go.Bar(
        y=[in_chart(span.lane) for span in spans], base=[1000 * span.start_s for span in spans],
        x=[1000 * (span.end_s - span.start_s) for span in spans], orientation="h", name=STAGE_WORDS[stage],
        marker={"color": COLOURS[stage], "line": {"width": 1, "color": _EDGES[stage]}},
        text=[str(span.batch) if span.end_s - span.start_s > _NARROWEST_LABEL * end else "" for span in spans],
        textposition="inside", constraintext="none", insidetextanchor="middle", textangle=0,
        textfont={"size": 12, "color": "#0b1016"},
        customdata=[span.batch for span in spans],
        hovertemplate=f"%{{y}}: {stage} of batch %{{customdata}}, %{{x:.3g}} ms<extra></extra>",
    )  # fmt: skip


def timeline_words(spans: Sequence[Span]) -> str:
    """Write in words what `timeline` plots."""
    said = []
    for name in lanes(spans):
        mine = [span for span in spans if span.lane == name]
        busy = sum(span.end_s - span.start_s for span in mine)
        until = max(span.end_s for span in mine)
        batches = len({span.batch for span in mine})
        count = "1 batch" if batches == 1 else f"{batches} batches"
        said.append(f"{name}: {count}, busy {1000 * busy:.3g} of {1000 * until:.3g} ms")
    return f"Timeline of the first batches. {'; '.join(said)}."


def over_epochs(epochs: tuple[EpochReport, ...], what: str) -> Figure:
    """Plot loss or accuracy (as `what` says) over the epochs, a line for each trial."""
    measure: dict[str, Callable[[EpochReport], float | None]] = {
        "loss": lambda epoch: epoch.loss,
        "accuracy, %": lambda epoch: None if epoch.accuracy is None else 100 * epoch.accuracy,
    }
    figure = go.Figure()
    trials = sorted({epoch.trial for epoch in epochs})
    for trial in trials:
        mine = [epoch for epoch in epochs if epoch.trial == trial]
        colour = SERIES[(trial - 1) % len(SERIES)]
        figure.add_trace(go.Scatter(
            x=[epoch.epoch for epoch in mine], y=[measure[what](epoch) for epoch in mine], mode="lines+markers",
            line={"width": 1.5, "color": colour}, marker={"size": 5}, name=f"trial {trial}",
            hovertemplate=f"epoch %{{x}}: %{{y:.4g}}<extra>trial {trial}</extra>",
        ))  # fmt: skip
    compact(figure, what, height=190).update_layout(showlegend=len(trials) > 1, legend={"font": SMALL})
    figure.update_xaxes(title_text="epoch", dtick=1 if len(epochs) <= 12 else None)
    return figure.update_yaxes(rangemode="normal", tickformat="~g")


def over_ranks(points: tuple[RankPoint, ...]) -> Figure:
    """Plot the speedup over the smallest number of ranks, and what a perfect one would be."""
    ranks = [point.ranks for point in points]
    first = points[0]
    gained = [first.epoch_s / point.epoch_s for point in points]
    ideal = [count / first.ranks for count in ranks]
    figure = go.Figure()
    figure.add_trace(go.Scatter(x=ranks, y=ideal, mode="lines", name="perfect", hoverinfo="skip",
                                line={"width": 1, "color": GREY, "dash": "dot"}))  # fmt: skip
    figure.add_trace(go.Scatter(
        x=ranks, y=gained, mode="lines+markers+text", name="measured", line={"width": 1.5, "color": BLUE},
        text=[f"{value:.2f}x" for value in gained], textposition="bottom right", textfont=SMALL, cliponaxis=False,
        hovertemplate="%{x} ranks: %{y:.2f}x<extra></extra>",
    ))  # fmt: skip
    compact(figure, f"speedup over {first.ranks}", height=190).update_layout(showlegend=True, legend={"font": SMALL})
    return figure.update_xaxes(title_text="ranks", tickvals=ranks, dtick=None)
