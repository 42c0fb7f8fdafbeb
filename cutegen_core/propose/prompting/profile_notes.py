"""What was measured, as short text for a prompt: times beside bounds and baselines, and a profile cut to its core.

Deterministic: the same records give the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.records.performance import (
    BEST,
    Bound,
    KernelProfile,
    Metric,
    Performance,
    Profile,
    Speedup,
    WorkloadPerformance,
)

MAX_LINES = 5


def timing_text(performance: Performance) -> str:
    """One line a workload: "large: 1.23 ms (A/A noise 0.4%); 1.42x eager (FASTER); 78% of the memory bound (...)"."""
    return "\n".join(_workload(each) for each in performance.workloads)


def text(profile: Profile, source: str = "") -> str:
    """A dozen metrics with units for each kernel, the profiler's own advice, and the lines that warps wait at.

    Args:
        source: of the kernel file, to quote those lines; without it only their numbers are given.
    """
    head = f"{profile.tool}, workload {profile.workload}, cold caches, clocks as they were:"
    return "\n".join([head, *(line for kernel in profile.kernels for line in _kernel(kernel, source.splitlines()))])


def _workload(measured: WorkloadPerformance) -> str:
    own = measured.candidate
    parts = [f"{measured.workload}: {time_text(own.median_us)} (A/A noise {measured.aa_noise:.1%})"]
    parts += [speedup_text(s) for s in measured.speedups]
    bound = measured.bound("graph")
    if bound is not None and bound.us > 0.0:
        parts.append(bound_text(own.median_us, bound))
    parts += [f"{u.contender} could not be timed ({u.reason})" for u in measured.untimed]
    return "; ".join(parts)


def bound_text(measured_us: float, bound: Bound) -> str:
    """ "78% of the memory bound (0.96 ms for 4.05 GB)" or "62% of the fp32 bound (2.69 ms for 137 GFLOP)"."""
    share = bound.us / max(measured_us, 1e-9)
    if bound.by == "memory":
        return f"{share:.0%} of the memory bound ({time_text(bound.us)} for {_bytes(bound.moved_bytes)})"
    return f"{share:.0%} of the {bound.pipe} bound ({time_text(bound.us)} for {bound.flops / 1e9:.3g} GFLOP)"


def speedup_text(speedup: Speedup) -> str:
    """ "1.42x eager (FASTER)"."""
    name = "the best so far" if speedup.baseline == BEST else speedup.baseline
    return f"{speedup.ratio:.2f}x {name} ({speedup.word})"


def time_text(us: float) -> str:
    """Three significant digits in the unit that fits."""
    return f"{us / 1000.0:.3g} ms" if us >= 1000.0 else f"{us:.3g} us"


def _kernel(kernel: KernelProfile, source: list[str]) -> Iterator[str]:
    yield f"- {kernel.kernel}: " + ", ".join(_metric(m) for m in kernel.metrics)
    yield from (f"  * {sentence}" for sentence in kernel.advice)
    total = sum(cost.samples for cost in kernel.lines)
    for cost in kernel.lines[:MAX_LINES]:
        quoted = f" | {source[cost.line - 1].strip()}" if 0 < cost.line <= len(source) else ""
        waiting = f", waiting for {cost.stall}" if cost.stall else ""
        yield f"  line {cost.line}: {cost.samples / total:.0%} of the samples{waiting}{quoted}"


def _metric(metric: Metric) -> str:
    value = f"{metric.value:.0f}" if metric.value >= 100.0 else f"{metric.value:.3g}"
    return f"{metric.name} {value} {metric.unit}".strip()


def _bytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
