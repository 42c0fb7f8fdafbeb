"""Records of a candidate's speed: samples, intervals, conditions and bounds. All times are device time in µs.

No number stands alone: a timing carries its noise and number of samples, a speedup its interval, and a bound the work
that was counted and the peak that divides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

CANDIDATE, BEST, EXISTING, EAGER, COMPILED = "candidate", "best", "existing", "eager", "torch.compile"
"""Names of the contenders; a vendor library call has its own name, such as "torch.mm"."""
SAME_AS_EAGER = "same kernel as eager"
"""Why a library call has no time of its own."""
GRAPH, COMPULSORY = "graph", "compulsory"
"""Kinds of bounds: see `Bound.kind`."""


class Word(StrEnum):
    """Comparison of the candidate with a baseline: FASTER or SLOWER only if the interval clears the measured A/A
    noise."""

    FASTER = "FASTER"
    SAME = "SAME"
    SLOWER = "SLOWER"


@dataclass(frozen=True)
class Timing:
    """One contender on one workload, over all its interleaved blocks.

    Attributes:
        noise: relative difference between repeated measurements of this contender (A/A), 0.01 for 1 %.
        n: samples kept; `dropped` more were taken while the clocks were throttled.
        method: "events" or "graph replay" (short kernels).
        samples_us: the samples kept, in the order taken.
        once_us: median of the launches marked once; a share of theirs is in every other time (`launch.ONCE_CALLS`).
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
    once_us: float = 0.0


@dataclass(frozen=True)
class Untimed:
    """A contender that could not be measured, and why."""

    contender: str
    reason: str


@dataclass(frozen=True)
class Speedup:
    """Baseline median / candidate median, with its 95 % bootstrap interval."""

    baseline: str
    ratio: float
    low: float
    high: float
    word: Word


@dataclass(frozen=True)
class ShapeTime:
    """One benchmark workload of several, in short.

    Attributes:
        against_best, ratio: the comparison with the best kernel, timed in turns; None where there was none.
    """

    workload: str
    latency_ms: float
    against_best: Word | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Bound:
    """Least time for the counted work at the measured peaks (Williams et al., "Roofline", CACM 2009).

    Attributes:
        kind: "graph" (every node as traced; for display) or "compulsory" (work that no algorithm can avoid).
        moved_bytes: to and from device memory.
        pipe: the pipe whose peak divides the FLOPs: "fp32", "tf32", "bf16", ...
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
        """The limiting resource: "memory" or "compute"."""
        return "memory" if self.memory_us >= self.compute_us else "compute"


@dataclass(frozen=True)
class KernelEstimate:
    """What a static model expects of a kernel that was not timed, to rank it: no time (`evaluate.tuning.estimate`).

    Attributes:
        us: the larger of the next two; over several benchmark workloads all are geometric means.
        memory_us, arithmetic_us: of the work as this kernel does it.
        bound_us: of the graph's work, 0 where it could not be counted.
        least_us: below which no kernel's estimate lies, on the fastest pipe with enough precision; 0 where unknown.
    """

    us: float
    memory_us: float
    arithmetic_us: float
    bound_us: float = 0.0
    least_us: float = 0.0

    @property
    def share(self) -> float:
        """Share of the bound, 0 to 1; 0 where there is none."""
        return min(1.0, self.bound_us / self.us) if self.us else 0.0


@dataclass(frozen=True)
class Peaks:
    """Best rates measured on one device.

    Attributes:
        copy_bytes_per_s: of a large copy, bytes read plus bytes written.
        read_bytes_per_s: of a large read that writes next to nothing.
        flops_per_s: by pipe ("fp32", "tf32", "f16", "bf16", "fp64"), reached on real values.
        how: the measurements in words, for the page.
        ceilings: by pipe, the highest rate seen under any condition, also one that real work never has; a kernel that
            exceeds it is not honest.
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
    """State of the device while the samples were taken.

    Attributes:
        sm_clock_mhz, temperature_c, power_w: lowest and highest value seen while measuring.
        throttled: reasons that the driver gave, such as "power cap"; empty if there were none.
        other_processes: programs that also held the GPU.
        sets: buffer sets, each with fresh values at its own addresses, used in turn.
        flushed_bytes: written between samples to empty the L2.
        lock_wait_s: time spent waiting for the device before measuring.
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
        aa_noise: relative noise that a difference must exceed to count.
        remeasured_us: the candidate's median in a fresh process, None without a second measurement.
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
    """One selected counter of the profiler, with its unit ("%", "us", "byte", "")."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class LineCost:
    """Cost that the profiler attributes to one line of the kernel file.

    Attributes:
        samples: number of warp-state samples at that line.
        stall: the most frequent reason for waiting warps, "" if none waited.
    """

    line: int
    samples: int
    stall: str = ""


@dataclass(frozen=True)
class KernelProfile:
    """Profile of one kernel.

    Attributes:
        advice: findings of the profiler's own rules, one sentence each.
    """

    kernel: str
    metrics: tuple[Metric, ...]
    advice: tuple[str, ...] = ()
    lines: tuple[LineCost, ...] = ()

    def metric(self, name: str) -> Metric | None:
        return next((m for m in self.metrics if m.name == name), None)


@dataclass(frozen=True)
class Profile:
    """Result of the PROFILE stage; `tool` includes the version."""

    tool: str
    workload: str
    kernels: tuple[KernelProfile, ...]


@dataclass(frozen=True)
class Performance:
    """Results of the BENCHMARK and PROFILE stages."""

    workloads: tuple[WorkloadPerformance, ...] = field(default_factory=tuple)
    profile: Profile | None = None
