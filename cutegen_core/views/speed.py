"""Read how fast the steps of a session are from their trials: latency, speedups, shares of the bound.

Of several workloads the geometric means stand for the kernel (`evaluate.timing.overall`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from cutegen_core.evaluate.evidence.speed import Share, share, strongest
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.records.performance import BEST, Bound, Performance, Speedup, Timing, WorkloadPerformance
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.read import trial_of
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views.costs import Delta


class SpeedRow(NamedTuple):
    """A timed step, ready for the timeline.

    Attributes:
        noise: the measured A/A noise, relative.
        against: the candidate beside the strongest baseline that could be timed, None without one.
        share: of the display bound, None where nothing was counted.
        bound_us, baseline_us: the target lines of the chart; None where unknown.
    """

    step: int
    latency_us: float
    p10_us: float
    p90_us: float
    noise: float
    against: Speedup | None
    share: Share | None
    bound_us: float | None
    baseline_us: float | None


def implied_peaks(bounds: tuple[Bound, ...]) -> Mapping[str, float]:
    """Return the measured peaks that the bounds were divided by, "bytes_per_s" and "flops_per_s"; absent if nothing of
    the kind was counted."""
    peaks: dict[str, float] = {}
    for bound in bounds:
        if bound.memory_us > 0:
            peaks.setdefault("bytes_per_s", 1e6 * bound.moved_bytes / bound.memory_us)
        if bound.compute_us > 0:
            peaks.setdefault("flops_per_s", 1e6 * bound.flops / bound.compute_us)
    return peaks


def performance_of(store: Store, step: Step | None) -> Performance | None:
    """Return what was measured of a step, None if nothing was."""
    tried = step.verdict if step else None
    return trial_of(store, tried.trial).performance if tried and tried.trial else None


def speed_rows(store: Store, state: State) -> tuple[SpeedRow, ...]:
    """Return every timed step, in order."""
    tried = ((s.number, s.verdict) for s in state.steps)
    found = ((number, t) for number, t in tried if t and t.trial and t.latency_ms is not None)
    rows = (_speed(store, number, tried.trial) for number, tried in found)
    return tuple(row for row in rows if row is not None)


@lru_cache(maxsize=8192)
def _speed(store: Store, number: int, trial: str) -> SpeedRow | None:
    workload = overall(trial_of(store, trial).performance)
    if workload is None:
        return None
    timing, against, reached = workload.candidate, strongest(workload), share(workload)
    baseline = timing_of(workload, against.baseline) if against else None
    return SpeedRow(
        number, timing.median_us, timing.p10_us, timing.p90_us, workload.aa_noise, against, reached,
        reached.bound.us if reached else None, baseline.median_us if baseline else None,
    )  # fmt: skip


def timing_of(workload: WorkloadPerformance, contender: str) -> Timing | None:
    return next((t for t in workload.timings if t.contender == contender), None)


def compare_speed(left: Trial | None, right: Trial | None) -> tuple[Delta, ...]:
    """Return the measured numbers of two candidates, line by line, over the workloads either was timed on."""
    a, b = (_speed_numbers(t.performance) if t and t.performance else {} for t in (left, right))
    return tuple(Delta(name, unit, a.get((name, unit)), b.get((name, unit))) for name, unit in dict.fromkeys([*a, *b]))


def _speed_numbers(performance: Performance) -> dict[tuple[str, str], float]:
    numbers: dict[tuple[str, str], float] = {}
    mean = overall(performance) if len(performance.workloads) > 1 else None
    for workload in (*([mean] if mean else []), *performance.workloads):
        timing, reached = workload.candidate, share(workload)
        where = workload.workload
        numbers[(f"{where}, median", "µs")] = timing.median_us
        numbers[(f"{where}, p10", "µs")] = timing.p10_us
        numbers[(f"{where}, p90", "µs")] = timing.p90_us
        if workload.remeasured_us is not None:
            numbers[(f"{where}, fresh process", "µs")] = workload.remeasured_us
        for speedup in workload.speedups:
            if speedup.baseline != BEST:
                numbers[(f"{where}, vs {speedup.baseline}", "x")] = speedup.ratio
        if reached:
            numbers[(f"{where}, of the {reached.bound.by} bound", "%")] = 100 * reached.fraction
            if reached.bound.moved_bytes:  # a mean over workloads counts no work
                numbers[(f"{where}, moved", "GB/s")] = reached.bound.moved_bytes / timing.median_us / 1e3
            if reached.bound.flops:
                numbers[(f"{where}, computed", "TFLOP/s")] = reached.bound.flops / timing.median_us / 1e6
    return numbers
