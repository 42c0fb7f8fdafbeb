"""What a report says of measured speed: sentences and rows, ready for its template."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.performance import KernelProfile, Profile, Timing, WorkloadPerformance
from cutegen_core.records.trial import Trial
from cutegen_core.views import MARK_WORDS, share, strongest, suspect
from cutegen_core.views.conditions import condition_rows

_ADVICE, _LINES = 5, 8


class Contender(NamedTuple):
    """One row of the table of times."""

    name: str
    median: str
    spread: str
    noise: str
    n: str
    speedup: str


class Speed(NamedTuple):
    """One workload."""

    workload: str
    headline: str
    contenders: tuple[Contender, ...]
    notes: tuple[str, ...]


class Profiled(NamedTuple):
    """One profiled launch."""

    title: str
    metrics: tuple[str, ...]
    lines: tuple[str, ...]
    advice: tuple[str, ...]


def speeds(trial: Trial | None) -> tuple[Speed, ...]:
    """Every timed workload of a trial; none where nothing was timed."""
    performance = trial.performance if trial else None
    return tuple(_speed(trial, w) for w in performance.workloads) if trial and performance else ()


def profiled(profile: Profile | None) -> tuple[Profiled, ...]:
    """Every launch of a profile."""
    return tuple(_profiled(profile, kernel) for kernel in profile.kernels) if profile else ()


def _speed(trial: Trial, workload: WorkloadPerformance) -> Speed:
    impossible = suspect(trial, workload)
    believed = impossible is None
    notes = [f"{row.name}: {row.text}" for row in condition_rows(workload.conditions)]
    notes += [f"{untimed.contender} was not timed: {untimed.reason}" for untimed in workload.untimed]
    if workload.remeasured_us is not None:
        notes.append(f"measured again in a fresh process: {workload.remeasured_us:.4g} µs")
    notes += [f"{mark}: {MARK_WORDS[mark]}" for mark in trial.marks]
    rows = tuple(_contender(workload, timing, believed) for timing in workload.timings)
    if impossible is not None:
        took = f"{workload.candidate.median_us:.4g} µs"
        said = f"SUSPECT, no result: {took} is less than the {impossible.us:.4g} µs that the work takes at the least"
        return Speed(workload.workload, said, rows, tuple(notes))
    return Speed(workload.workload, _headline(workload), rows, tuple(notes))


def _headline(workload: WorkloadPerformance) -> str:
    against, reached = strongest(workload), share(workload)
    words = [f"{workload.candidate.median_us:.4g} µs, A/A noise ±{100 * workload.aa_noise:.2g} %"]
    if against:
        words.append(f"{against.word} beside {against.baseline}: {against.ratio:.2f}x")
    return "; ".join([*words, *([reached.words] if reached else [])])


def _contender(workload: WorkloadPerformance, timing: Timing, believed: bool) -> Contender:
    speedup = workload.speedup(timing.contender) if believed else None
    beside = f"{speedup.ratio:.3f}x [{speedup.low:.3f}, {speedup.high:.3f}] {speedup.word}" if speedup else ""
    dropped = f", {timing.dropped} dropped" if timing.dropped else ""
    return Contender(
        timing.contender, f"{timing.median_us:.4g}", f"{timing.p10_us:.4g} to {timing.p90_us:.4g}",
        f"{100 * timing.noise:.2g} %", f"{timing.n}{dropped}, {timing.method}", beside,
    )  # fmt: skip


def _profiled(profile: Profile, kernel: KernelProfile) -> Profiled:
    hottest = sorted(kernel.lines, key=lambda line: -line.samples)[:_LINES]
    total = sum(line.samples for line in kernel.lines) or 1
    return Profiled(
        f"{kernel.kernel}, by {profile.tool} on workload {profile.workload}",
        tuple(f"{m.name} {m.value:.4g} {m.unit}".strip() for m in kernel.metrics),
        tuple(f"line {h.line}: {100 * h.samples / total:.0f} % of the samples{f', {h.stall}' if h.stall else ''}"
              for h in hottest),
        kernel.advice[:_ADVICE],
    )  # fmt: skip
