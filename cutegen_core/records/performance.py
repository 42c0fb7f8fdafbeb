"""How fast a candidate is, as records: samples, intervals, conditions and bounds. All times are device time in µs.

A number here never stands alone: a timing carries its noise and how many samples it rests on, a speedup its interval,
a bound what was counted and which peak it was divided by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

CANDIDATE, BEST, EAGER, COMPILED, EXISTING = "candidate", "best", "eager", "torch.compile", "existing"
"""Contenders by name; a vendor library call is named after itself, such as "torch.mm"."""


class Word(StrEnum):
    """The candidate against a baseline: FASTER or SLOWER only where the interval clears the measured A/A noise."""

    FASTER = "FASTER"
    SAME = "SAME"
    SLOWER = "SLOWER"


@dataclass(frozen=True)
class Timing:
    """One contender on one workload, over all its interleaved blocks.

    Attributes:
        noise: relative difference a comparison of this contender with itself showed (A/A), 0.01 for 1 %.
        n: samples kept; `dropped` more were taken while the clocks were throttled.
        method: "events" or "graph replay" (short kernels).
        samples_us: those kept, in the order taken.
    """

    contender: str
    median_us: float
    p10_us: float
    p90_us: float
    noise: float
    n: int
    dropped: int = 0
    method: str = "events"
    samples_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class Untimed:
    """A baseline that could not be measured, and why."""

    contender: str
    reason: str


@dataclass(frozen=True)
class Speedup:
    """baseline median / candidate median, with its 95 % bootstrap interval."""

    baseline: str
    ratio: float
    low: float
    high: float
    word: Word


@dataclass(frozen=True)
class Bound:
    """The least time that counted work can take at measured peaks (Williams et al., "Roofline", CACM 2009).

    Attributes:
        kind: "graph" (every node as traced; for display) or "compulsory" (what no algorithm can avoid).
        moved_bytes: to and from device memory.
        pipe: whose peak the FLOPs were divided by: "fp32", "tf32", "bf16", ...
    """

    kind: str
    moved_bytes: int
    flops: int
    pipe: str
    memory_us: float
    compute_us: float

    @property
    def us(self) -> float:
        return max(self.memory_us, self.compute_us)

    @property
    def by(self) -> str:
        """What limits: "memory" or "compute"."""
        return "memory" if self.memory_us >= self.compute_us else "compute"


@dataclass(frozen=True)
class Peaks:
    """What one device was measured to do at best.

    Attributes:
        copy_bytes_per_s: a large copy, bytes read plus bytes written.
        read_bytes_per_s: a large read that writes next to nothing.
        flops_per_s: by pipe ("fp32", "tf32", "f16", "bf16", "fp64"), reached on real values.
        how: what was run, for the page.
        ceilings: by pipe, the most anything showed, under conditions no real work has; no honest kernel is faster.
    """

    device: str
    copy_bytes_per_s: float
    read_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    how: str
    measured_at: float
    ceilings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Conditions:
    """Under which circumstances samples were taken.

    Attributes:
        sm_clock_mhz, temperature_c, power_w: lowest and highest seen while measuring.
        throttled: reasons the driver gave, such as "power cap"; empty when there were none.
        other_processes: programs that also held the GPU.
        sets: buffer sets of fresh values at addresses of their own, used in turn.
        flushed_bytes: written between samples to empty the L2.
        lock_wait_s: waited for the device before measuring.
    """

    device: str
    driver: str
    sm_clock_mhz: tuple[int, int]
    memory_clock_mhz: int
    temperature_c: tuple[int, int]
    power_w: tuple[float, float]
    throttled: tuple[str, ...]
    other_processes: int
    sets: int
    flushed_bytes: int
    lock_wait_s: float


@dataclass(frozen=True)
class WorkloadPerformance:
    """All contenders on one workload.

    Attributes:
        timings: the candidate first.
        aa_noise: the noise that a difference has to clear here, relative.
        remeasured_us: the candidate's median in a fresh process, None where that was not done.
    """

    workload: str
    timings: tuple[Timing, ...]
    speedups: tuple[Speedup, ...]
    untimed: tuple[Untimed, ...]
    aa_noise: float
    conditions: Conditions
    bounds: tuple[Bound, ...] = ()
    remeasured_us: float | None = None

    @property
    def candidate(self) -> Timing:
        return self.timings[0]

    def speedup(self, baseline: str) -> Speedup | None:
        return next((s for s in self.speedups if s.baseline == baseline), None)

    def bound(self, kind: str) -> Bound | None:
        return next((b for b in self.bounds if b.kind == kind), None)


@dataclass(frozen=True)
class Metric:
    """One chosen counter of the profiler, with its unit ("%", "us", "byte", "")."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class LineCost:
    """What the profiler charges to one line of the kernel file.

    Attributes:
        samples: warp-state samples taken there.
        stall: the most frequent reason warps waited there, "" when they did not.
    """

    line: int
    samples: int
    stall: str = ""


@dataclass(frozen=True)
class KernelProfile:
    """One kernel under the profiler.

    Attributes:
        advice: the profiler's own rules, one sentence each.
    """

    kernel: str
    metrics: tuple[Metric, ...]
    advice: tuple[str, ...] = ()
    lines: tuple[LineCost, ...] = ()

    def metric(self, name: str) -> Metric | None:
        return next((m for m in self.metrics if m.name == name), None)


@dataclass(frozen=True)
class Profile:
    """The PROFILE stage's findings; `tool` with its version."""

    tool: str
    workload: str
    kernels: tuple[KernelProfile, ...]


@dataclass(frozen=True)
class Performance:
    """Everything the BENCHMARK and PROFILE stages found."""

    workloads: tuple[WorkloadPerformance, ...] = field(default_factory=tuple)
    profile: Profile | None = None

    @property
    def first(self) -> WorkloadPerformance | None:
        """The problem's own size, or the first of several; None where nothing was timed."""
        return next(iter(self.workloads), None)

    @property
    def latency_us(self) -> float | None:
        """The candidate's median on the first workload, None where nothing was timed."""
        return self.workloads[0].candidate.median_us if self.workloads else None
