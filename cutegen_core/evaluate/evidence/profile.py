"""Word a profile: the metrics of every launch, the lines that warps wait at, and the profiler's advice."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.performance import KernelProfile, Profile
from cutegen_core.records.wording import sized

_CONDITIONS = "measured with cold caches and clocks that are not locked"


def profile(found: Profile | None) -> tuple[Section, ...]:
    """Describe every profiled launch."""
    return tuple(_launch(found, kernel) for kernel in found.kernels) if found else ()


def _launch(found: Profile, kernel: KernelProfile) -> Section:
    title = f"Profile of {kernel.kernel}, by {found.tool} on workload {found.workload}"
    remarks = (
        *(Remark(f"{m.name} {sized(m.value)} {m.unit}".strip()) for m in kernel.metrics),
        *_lines(kernel),
        *(Remark(sentence, Tone.ASIDE) for sentence in kernel.advice),
        Remark(_CONDITIONS, Tone.ASIDE),
    )
    columns = ("line", "samples", "mostly waiting for")
    return Section(Topic.PROFILE, title, remarks, kernel.kernel, columns, numbers_from=9)


def _lines(kernel: KernelProfile) -> Iterator[Remark]:
    """Yield the lines of the kernel file that hold samples, most samples first."""
    total = sum(cost.samples for cost in kernel.lines)
    for cost in sorted(kernel.lines, key=lambda cost: -cost.samples):
        share = f"{100 * cost.samples / total:.0f} %" if total else "0 %"
        waiting = f", waiting for {cost.stall}" if cost.stall else ""
        text = f"line {cost.line}: {share} of the samples{waiting}"
        yield Remark(text, at=cost.line, cells=(str(cost.line), share, cost.stall or "-"))
