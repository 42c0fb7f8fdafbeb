"""What was measured, as text for a prompt: a few lines, always with units, the same record always the same text."""

from __future__ import annotations

from cutegen_core.performance import KernelProfile, Performance, Profile, WorkloadPerformance

MAX_ADVICE, MAX_LINES = 4, 5


def text(profile: Profile) -> str:
    """The chosen metrics of each kernel, the profiler's advice and its hottest lines."""
    return "\n".join(_kernel(kernel) for kernel in profile.kernels)


def timing_text(performance: Performance) -> str:
    """Latency, what it is worth against each baseline and against the bound, a workload a line."""
    return "\n".join(_workload(workload) for workload in performance.workloads)


def _kernel(kernel: KernelProfile) -> str:
    metrics = ", ".join(f"{m.name} {m.value:.4g}{' ' + m.unit if m.unit else ''}" for m in kernel.metrics)
    lines = [f"- {kernel.kernel}: {metrics}"]
    lines += [f"  - advice: {advice}" for advice in kernel.advice[:MAX_ADVICE]]
    hottest = sorted(kernel.lines, key=lambda cost: -cost.samples)[:MAX_LINES]
    lines += [
        f"  - line {cost.line}: {cost.samples} samples{', ' + cost.stall if cost.stall else ''}" for cost in hottest
    ]
    return "\n".join(lines)


def _workload(workload: WorkloadPerformance) -> str:
    own = workload.candidate
    parts = [f"{own.median_us:.4g} us (A/A noise {workload.aa_noise:.1%})"]
    parts += [f"{s.ratio:.2f}x {s.baseline} ({s.word})" for s in workload.speedups]
    bound = workload.bound("graph")
    if bound:
        parts.append(f"{bound.us / own.median_us:.0%} of the {bound.by} bound")
    return f"{workload.workload}: {'; '.join(parts)}"


def _comma(words: str) -> str:
    return f", {words}" if words else ""
