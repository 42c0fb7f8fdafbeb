"""Two candidates' times side by side: the chart, the numbers, and one word with what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st

from cutegen_core.performance import Speedup, Timing, WorkloadPerformance
from cutegen_core.trial import Trial
from cutegen_core.views import compare_speed
from pages.components import speed_charts
from pages.components.charts import NEEDS_GPU
from pages.components.resources import deltas
from pages.components.texts import escaped, percent, quiet, ratio

_KINDS = {"FASTER": "passed", "SLOWER": "failed", "SAME": ""}
_SHAPES = {"FASTER": "▲", "SLOWER": "▼", "SAME": "="}


class Pair(NamedTuple):
    """One workload both were timed on."""

    a: WorkloadPerformance
    b: WorkloadPerformance


def render_versus(a: Trial | None, b: Trial | None, names: tuple[str, str]) -> None:
    """`names` are those of A and B."""
    pairs = list(_pairs(a, b))
    for pair in pairs:
        _pair(pair, names)
    rows = compare_speed(a, b)
    if rows:
        st.html(deltas(rows, *names))
    else:
        quiet(f"Neither was timed: {NEEDS_GPU}.")
    if rows and not pairs:
        quiet("They were not timed on the same workload, so there is no word for it.")


def _pairs(a: Trial | None, b: Trial | None) -> Iterator[Pair]:
    left, right = (t.performance.workloads if t and t.performance else () for t in (a, b))
    for one in left:
        other = next((w for w in right if w.workload == one.workload), None)
        if other is not None:
            yield Pair(one, other)


def _pair(pair: Pair, names: tuple[str, str]) -> None:
    """B against A. They were timed in different runs: the interval is of the samples, not of the hours between."""
    # Imported late: it needs numpy, and most pages compare nothing.
    from cutegen_core.measurement import statistics

    one, other = pair.a.candidate, pair.b.candidate
    noise = max(pair.a.aa_noise, pair.b.aa_noise)
    if one.samples_us and other.samples_us:
        speedup = statistics.speedup("A", [one.samples_us], [other.samples_us], noise)
        st.html(_sentence(pair.a.workload, speedup, noise))
    figure = speed_charts.beside(_named(one, names[0]), _named(other, names[1]))
    st.plotly_chart(figure, key=f"versus-{pair.a.workload}", config={"displayModeBar": False})
    for word, said in _unlike(pair):
        quiet(f"▲ {word} differs: {said}")


def _sentence(workload: str, speedup: Speedup, noise: float) -> str:
    word = str(speedup.word)
    said = f'<span class="cg-{_KINDS[word]}">{_SHAPES[word]} {word}</span>'
    interval = f"{speedup.low:.3f} to {speedup.high:.3f}, A/A noise ±{percent(noise)}"
    found = f"{escaped(workload)}: B is {said} <b>{ratio(speedup.ratio)}</b> <i>·</i> {interval}"
    return (
        f'<div class="cg-headline">{found}</div>'
        '<div class="cg-quiet">Measured in two runs, not in turns: a small difference may be of the clocks.</div>'
    )


def _unlike(pair: Pair) -> Iterator[tuple[str, str]]:
    """Conditions that make the comparison doubtful."""
    a, b = pair.a.conditions, pair.b.conditions
    for word, one, other in (("device", a.device, b.device), ("driver", a.driver, b.driver)):
        if one != other:
            yield word, f"{one} and {other}"
    for name, found in (("A", a), ("B", b)):
        if found.throttled:
            yield "throttling", f"{name} was throttled by {', '.join(found.throttled)}"


def _named(timing: Timing, name: str) -> Timing:
    return Timing(name, timing.median_us, timing.p10_us, timing.p90_us, timing.noise, timing.n,
                  samples_us=timing.samples_us)  # fmt: skip
