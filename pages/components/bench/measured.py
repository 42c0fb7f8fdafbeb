"""Draw what a bench has measured: figures and charts of the set, and a line per problem."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core import views
from cutegen_core.records.wording import counted, ratio
from cutegen_core.views import BenchFigures, BenchLine, BenchOutcome
from pages.components.bench import pictures
from pages.components.shared.texts import Html, escape_html, heading, heard, note, quiet, table, tooltip

_PLAIN = {"displayModeBar": False}
_MARKS = {BenchOutcome.PASSED: "✓"}
NOTHING_TIMED = (
    "Nothing was timed: these sessions ran on the CPU emulator. Coverage and CuTe features count; speedups, fast_p and "
    "the share of the bound need a GPU."
)


def render_figures(lines: Sequence[BenchLine]) -> None:
    """Draw the figures of the set as a table, and the charts beside it."""
    figures = views.bench_figures(lines)
    assert figures is not None
    timed = bool(figures.mean_speedup)
    if not timed and figures.passed:
        note("info", NOTHING_TIMED)
    left, right = st.columns([1, 1.35], gap="medium")
    with left:
        heading("Figures of the set")
        quiet(f"Coverage: a kernel passed for {figures.passed} of {counted(figures.problems, 'problem')}, "
              f"{100 * figures.coverage:.0f} %.")  # fmt: skip
        if timed:
            st.html(table(("figure", *(f"vs {name}" for name in figures.mean_speedup)), _rows(figures)))
        if figures.mean_share is not None:
            quiet(f"Share of the bound: geometric mean {100 * figures.mean_share:.0f} %.")
        if timed:
            heading("fast_p: share of all problems more than p times as fast")
            heard(pictures.fast_words(lines))
            st.plotly_chart(pictures.fast_curve(tuple(lines)), key="bench-fast", config=_PLAIN)
        if figures.features:
            heading("CuTe in the best kernels")
            heard(f"Problems by feature: {pictures.feature_words(figures)}.")
            st.plotly_chart(pictures.features(figures), key="bench-features", config=_PLAIN)
    if timed:
        with right:
            heading("Speedup of each problem")
            heard(pictures.speedup_words(lines))
            st.plotly_chart(pictures.speedups(tuple(lines)), key="bench-speedups", config=_PLAIN)
            if figures.mean_share is not None:
                heading("Share of the bound")
                heard(pictures.share_words(lines))
                st.plotly_chart(pictures.shares(tuple(lines)), key="bench-shares", config=_PLAIN)


def _rows(figures: BenchFigures) -> list[tuple[object, ...]]:
    names = list(figures.mean_speedup)
    rows: list[tuple[object, ...]] = [
        ("geometric mean", *(ratio(figures.mean_speedup[name]) for name in names)),
        ("problems timed", *(figures.timed[name] for name in names)),
    ]
    for place, p in enumerate(views.FAST_P):
        rows.append((f"fast_{p:g}", *(f"{100 * figures.fast[name][place]:.0f} %" for name in names)))
    return rows


# ---- a line per problem


def render_lines(lines: Sequence[BenchLine]) -> None:
    """Draw the problems, those without a kernel first; each leads to its session."""
    heading(f"Problems · {len(lines)}")
    baselines = [name for name in views.BASELINES if any(name in line.speedups for line in lines)]
    timed = any(line.latency_us for line in lines)
    header = ("problem", "outcome", "best kernel, or why there is none", "CuTe features", "s", "steps",
              *(("µs", "of the bound", *(f"vs {name}" for name in baselines)) if timed else ()))  # fmt: skip
    ordered = sorted(lines, key=lambda line: line.outcome is BenchOutcome.PASSED)
    with st.container(key="bench-lines"):
        st.html(table(header, [_row(line, baselines if timed else None) for line in ordered], numbers_from=4))


def _row(line: BenchLine, baselines: Sequence[str] | None) -> tuple[object, ...]:
    name = escape_html(line.problem)
    if line.session:
        name = f'<a class="cg-to-line" href="session?id={escape_html(line.session)}" target="_self">{name}</a>'
    features = ", ".join(line.features)
    cells = (
        Html(name), f"{_MARKS.get(line.outcome, '✗')} {line.outcome}", line.idea or line.why,
        Html(f'<span title="{tooltip(features)}">{escape_html(features)}</span>'), f"{line.seconds:.0f}", line.steps,
    )  # fmt: skip
    if baselines is None:
        return cells
    share = f"{100 * line.share:.0f} %" if line.share else "–"
    ratios = (ratio(line.speedups[name]) if name in line.speedups else "–" for name in baselines)
    return (*cells, f"{line.latency_us:.4g}" if line.latency_us else "–", share, *ratios)
