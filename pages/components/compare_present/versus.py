"""Compare the times of two candidates: the result in words with its interval, the chart and the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import streamlit as st

from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.records.performance import Performance, Speedup, Timing, Word, WorkloadPerformance
from cutegen_core.records.trial import Status, Trial
from cutegen_core.records.wording import listed, pace, percent
from cutegen_core.views import compare_speed, why_untimed
from pages.components.compare_present.changed_first import changed_first
from pages.components.shared import speed_charts
from pages.components.shared.texts import Html, escape_html, heard, quiet

_KINDS = {"FASTER": "passed", "SLOWER": "failed", "SAME": ""}
_SHAPES = {"FASTER": "▲", "SLOWER": "▼", "SAME": "="}


class Compared(NamedTuple):
    """A workload that both were timed on; `speedup` is B against A, None where their samples were not kept."""

    a: WorkloadPerformance
    b: WorkloadPerformance
    speedup: Speedup | None

    @property
    def noise(self) -> float:
        """The larger A/A noise of the two runs, relative."""
        return max(self.a.aa_noise, self.b.aa_noise)


def compared(a: Trial | None, b: Trial | None) -> tuple[Compared, ...]:
    """Compare every workload that both were timed on; none where a time is SUSPECT, which is no result.

    The times are from different runs: the interval covers the samples, not the drift between the runs.
    """
    if is_suspect(a, b):
        return ()
    left, right = (t.performance.workloads if t and t.performance else () for t in (a, b))
    others = {workload.workload: workload for workload in right}
    return tuple(_compared(one, others[one.workload]) for one in left if one.workload in others)


def mean(found: Sequence[Compared]) -> Speedup | None:
    """Compare over all workloads: the only one, or the geometric mean; None where samples of one are missing."""
    workloads = [replace(one.b, speedups=(one.speedup,)) for one in found if one.speedup]
    whole = overall(Performance(tuple(workloads))) if len(workloads) == len(found) else None
    return next(iter(whole.speedups), None) if whole else None


def slower_on(found: Sequence[Compared]) -> tuple[str, ...]:
    """Return the workloads on which B is slower than A."""
    return tuple(one.a.workload for one in found if one.speedup and one.speedup.word is Word.SLOWER)


def is_suspect(*trials: Trial | None) -> bool:
    return any(trial is not None and trial.status is Status.SUSPECT for trial in trials)


def _compared(a: WorkloadPerformance, b: WorkloadPerformance) -> Compared:
    # Imported late: it needs numpy, and most pages compare nothing.
    from cutegen_core.evaluate.timing import statistics

    one, other = a.candidate.samples_us, b.candidate.samples_us
    noise = max(a.aa_noise, b.aa_noise)
    return Compared(a, b, statistics.compute_speedup("A", [one], [other], noise) if one and other else None)


def verdict(speedup: Speedup) -> Html:
    """Write "1.20x faster" with its shape and colour."""
    name = str(speedup.word)
    return Html(f'<span class="cg-{_KINDS[name]}">{_SHAPES[name]} {pace(speedup)}</span>')


def render_versus(a: Trial | None, b: Trial | None, names: tuple[str, str]) -> None:
    """Draw the comparison; `names` are those of A and B."""
    found = compared(a, b)
    _all_of_them(found)
    for one in found:
        _workload(one, names)
    rows = compare_speed(a, b)
    if rows:
        st.html(changed_first(rows, names))
    else:
        quiet(_neither(a, b, names))
    if is_suspect(a, b):
        quiet("▲ A time is SUSPECT and does not count, so there is no comparison.")
    elif rows and not found:
        quiet("No comparison: they were not measured on the same workload.")


def _all_of_them(found: Sequence[Compared]) -> None:
    """Draw the result over several workloads, and on which of them B is slower."""
    whole, slower = mean(found), slower_on(found)
    if whole is None or len(found) < 2:
        return
    name = f"geometric mean of {len(found)} workloads"
    st.html(_sentence(name, whole, max(one.noise for one in found)))
    if slower:
        quiet(f"▼ B regressed on {listed(slower)}.")


def _neither(a: Trial | None, b: Trial | None, names: tuple[str, str]) -> str:
    """Say why neither was timed."""
    one, other = (why_untimed(trial) if trial else "not tried yet" for trial in (a, b))
    why = one if one == other else f"{names[0]}: {one}; {names[1]}: {other}"
    return f"Neither was timed: {why}."


def _workload(found: Compared, names: tuple[str, str]) -> None:
    if found.speedup:
        st.html(_sentence(found.a.workload, found.speedup, found.noise))
    figure = speed_charts.beside(_named(found.a.candidate, names[0]), _named(found.b.candidate, names[1]))
    heard("Chart of the medians with p10 and p90 of both, above the samples; the table that follows has the numbers.")
    st.plotly_chart(figure, key=f"versus-{found.a.workload}", config={"displayModeBar": False})
    for condition, said in _unlike(found):
        quiet(f"▲ {condition} differs: {said}")


def _sentence(workload: str, speedup: Speedup, noise: float) -> str:
    interval = f"speedup {speedup.low:.3f} to {speedup.high:.3f} (95 %), A/A noise ±{percent(noise)}"
    found = f"{escape_html(workload)}: B is <b>{verdict(speedup)}</b> <i>·</i> {interval}"
    return (
        f'<div class="cg-headline">{found}</div>'
        '<div class="cg-quiet">Measured in two runs, not in turns: a small difference may come from the clocks.</div>'
    )


def _unlike(found: Compared) -> Iterator[tuple[str, str]]:
    """List the conditions that make the comparison doubtful."""
    a, b = found.a.conditions, found.b.conditions
    for condition, one, other in (("device", a.device, b.device), ("driver", a.driver, b.driver)):
        if one != other:
            yield condition, f"{one} and {other}"
    for name, under in (("A", a), ("B", b)):
        if under.throttled:
            yield "throttling", f"{name} was throttled by {', '.join(under.throttled)}"


def _named(timing: Timing, name: str) -> Timing:
    return Timing(name, timing.median_us, timing.p10_us, timing.p90_us, timing.noise, timing.n,
                  samples_us=timing.samples_us)  # fmt: skip
