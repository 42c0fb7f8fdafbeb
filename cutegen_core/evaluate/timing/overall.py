"""Speak of all benchmark workloads at once: geometric means over them, and which of them became slower.

One workload stands for itself. Of several, every number is the geometric mean (Fleming and Wallace, "How not to lie
with statistics", CACM 1986), so that a mean ratio is the ratio of the mean times. The mean of the intervals' ends is
wider than the interval of the mean, since the workloads are measured independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cutegen_core.evaluate.timing.statistics import Ratio, decide_word, geometric_mean
from cutegen_core.records.performance import (
    BEST,
    Bound,
    Performance,
    ShapeTime,
    Speedup,
    Timing,
    Word,
    WorkloadPerformance,
)


def overall(performance: Performance | None) -> WorkloadPerformance | None:
    """Return the only workload, or the geometric means over several; None if nothing was timed.

    A contender, a baseline or a bound that a workload lacks is left out, since the others do not stand for it.
    """
    workloads = performance.workloads if performance else ()
    if len(workloads) < 2:
        return next(iter(workloads), None)
    noise = max(workload.aa_noise for workload in workloads)
    again = [workload.remeasured_us for workload in workloads]
    return replace(
        workloads[0],
        workload=f"geometric mean of {len(workloads)} workloads",
        timings=tuple(_mean_timings(workloads)),
        speedups=tuple(_mean_speedups(workloads, noise)),
        untimed=tuple({u.contender: u for workload in workloads for u in workload.untimed}.values()),
        aa_noise=noise,
        bounds=tuple(_mean_bounds(workloads)),
        remeasured_us=geometric_mean([us for us in again if us]) if all(again) else None,
    )


def shape_times(performance: Performance | None) -> tuple[ShapeTime, ...]:
    """Return each workload in short; empty for a single one, which the overall numbers describe."""
    workloads = performance.workloads if performance else ()
    return tuple(_shape_time(workload) for workload in workloads) if len(workloads) > 1 else ()


def regressed(shapes: Sequence[ShapeTime]) -> tuple[ShapeTime, ...]:
    """Return the workloads on which the candidate is slower than the best, beyond the noise."""
    return tuple(shape for shape in shapes if shape.against_best is Word.SLOWER)


def _shape_time(workload: WorkloadPerformance) -> ShapeTime:
    beside = workload.speedup(BEST)
    return ShapeTime(
        workload.workload,
        workload.candidate.median_us / 1000,
        beside.word if beside else None,
        beside.ratio if beside else None,
    )


def _mean_timings(workloads: Sequence[WorkloadPerformance]) -> Iterator[Timing]:
    for first in workloads[0].timings:
        same = [t for workload in workloads for t in workload.timings if t.contender == first.contender]
        if len(same) == len(workloads):
            yield Timing(
                first.contender,
                geometric_mean([t.median_us for t in same]),
                geometric_mean([t.p10_us for t in same]),
                geometric_mean([t.p90_us for t in same]),
                max(t.noise for t in same),
                sum(t.n for t in same),
                sum(t.dropped for t in same),
                first.method if len({t.method for t in same}) == 1 else "several methods",
            )


def _mean_speedups(workloads: Sequence[WorkloadPerformance], noise: float) -> Iterator[Speedup]:
    for first in workloads[0].speedups:
        same = [s for workload in workloads if (s := workload.speedup(first.baseline))]
        if len(same) == len(workloads):
            found = Ratio(*(geometric_mean([getattr(s, part) for s in same]) for part in ("ratio", "low", "high")))
            yield Speedup(first.baseline, found.value, found.low, found.high, decide_word(found, noise))


def _mean_bounds(workloads: Sequence[WorkloadPerformance]) -> Iterator[Bound]:
    """Yield the mean of each bound; the workload that takes longest says what limits it. No work is counted."""
    for first in workloads[0].bounds:
        same = [b for workload in workloads if (b := workload.bound(first.kind)) and b.us > 0]
        if len(same) == len(workloads):
            us, by = geometric_mean([b.us for b in same]), max(same, key=lambda b: b.us).by
            memory_us, compute_us = (us, 0.0) if by == "memory" else (0.0, us)
            yield Bound(first.kind, 0, 0, first.pipe, memory_us, compute_us)
