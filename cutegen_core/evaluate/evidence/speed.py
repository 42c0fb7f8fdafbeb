"""Word how fast a kernel is: its time, against baselines and bounds, and under which conditions it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cutegen_core.evaluate.evidence.cost import estimate_text
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.launch import ONCE_CALLS
from cutegen_core.records.performance import (
    BEST,
    COMPULSORY,
    EXISTING,
    GRAPH,
    Bound,
    Conditions,
    Speedup,
    Timing,
    Word,
    WorkloadPerformance,
)
from cutegen_core.records.trial import ExecutorKind, Stage, Status, Trial
from cutegen_core.records.wording import (
    NEEDS_GPU,
    called,
    counted,
    data_size,
    interval,
    micros,
    pace,
    pace_against,
    percent,
)

STABLE = 0.02
"""A median that moves by more than this share in a fresh process is not reliable."""
_BEATEN = 1.02
"""From this share on a bound is beaten by more than its own uncertainty."""
TONES = {Word.FASTER: Tone.BETTER, Word.SAME: Tone.PLAIN, Word.SLOWER: Tone.WORSE}


class Share(NamedTuple):
    """How much of a bound a time reaches; `fraction` is above 1 where it is beaten."""

    bound: Bound
    fraction: float

    @property
    def words(self) -> str:
        """Write "78 % of the memory bound"."""
        return f"{100 * self.fraction:.0f} % of the {self.bound.by} bound"


# ---- what is read from the records


def strongest(workload: WorkloadPerformance) -> Speedup | None:
    """Return the comparison with the fastest baseline: the smallest ratio. The session's own best is no baseline."""
    return min((s for s in workload.speedups if s.baseline != BEST), key=lambda s: s.ratio, default=None)


def share(workload: WorkloadPerformance, us: float | None = None) -> Share | None:
    """Return the share of the bound for display: the graph's, or the compulsory one where nothing else was counted.

    Args:
        us: another time than the candidate's median.
    """
    bound = workload.bound(GRAPH) or workload.bound(COMPULSORY)
    took = us or workload.candidate.median_us
    return Share(bound, bound.us / took) if bound and took else None


def suspect(trial: Trial, workload: WorkloadPerformance) -> Bound | None:
    """Return the compulsory bound that made this workload's time SUSPECT, None where the time is believed."""
    bound = workload.bound(COMPULSORY) if trial.status is Status.SUSPECT else None
    return bound if bound and workload.candidate.median_us < bound.us else None


def why_untimed(trial: Trial) -> str:
    """Say in a few words, without a full stop, why a trial holds no time."""
    if trial.executor is ExecutorKind.CPU:
        return f"timing {NEEDS_GPU}"
    stage = next((result for result in trial.stages if result.stage is Stage.BENCHMARK), None)
    return trial.message or (stage.note if stage else "") or "the benchmark was skipped"


# ---- the sections


def speed(trial: Trial) -> Iterator[Section]:
    """Describe the speed on every timed workload; of a kernel that passed without times, say why it has none."""
    workloads = trial.performance.workloads if trial.performance else ()
    if not workloads and trial.passed:
        guessed = (Remark(estimate_text(trial.estimate), Tone.ASIDE),) if trial.estimate else ()
        yield Section(Topic.SPEED, "Speed", (Remark(untimed_text(trial), Tone.ASIDE), *guessed))
    if len(workloads) > 1:
        yield _shapes(trial, workloads)
    for workload in workloads:
        name = workload.workload
        yield Section(Topic.SPEED, f"Speed on workload {name}", tuple(_speed(trial, workload)), name)
        if workload.speedups and suspect(trial, workload) is None:
            yield _speedups(workload)
        yield _times(workload)
        yield _conditions(workload)


def untimed_text(trial: Trial) -> str:
    """Say that a trial holds no time, and why."""
    return f"not measured ({why_untimed(trial)})"


def _shapes(trial: Trial, workloads: Sequence[WorkloadPerformance]) -> Section:
    """Compare the workloads, their geometric mean last."""
    existing = any(workload.speedup(EXISTING) for workload in workloads)
    beside = ("vs previous best", *(("vs existing kernel",) if existing else ()))
    columns = ("workload", "time", *beside, "vs fastest baseline", "of the bound")
    mean = overall(trial.performance)
    rows = tuple(_shape(workload, existing) for workload in (*workloads, *((mean,) if mean else ())))
    return Section(Topic.SHAPES, f"Speed on {len(workloads)} workloads", rows, columns=columns)


def _shape(workload: WorkloadPerformance, existing: bool) -> Remark:
    best, strong, reached = workload.speedup(BEST), strongest(workload), share(workload)
    kernels = (best, workload.speedup(EXISTING)) if existing else (best,)
    others = (pace_against(strong) if strong else "", reached.words if reached else "")
    took = micros(workload.candidate.median_us)
    cells = (workload.workload, took, *(pace(other) if other else "" for other in kernels), *others)
    against = (pace_against(other) for other in kernels if other and other is not strong)
    said = ", ".join(filter(None, (took, *against, *others)))
    return Remark(f"{cells[0]}: {said}", TONES[best.word] if best else Tone.PLAIN, cells=cells)


def _speed(trial: Trial, workload: WorkloadPerformance) -> Iterator[Remark]:
    """Yield the time, the share of the bound, and what could not be measured or is to be doubted."""
    yield Remark(took_text(workload))
    doubt, reached = doubt_text(trial, workload), reached_text(workload)
    if doubt:
        yield Remark(doubt, Tone.BAD)
    elif reached:
        yield Remark(reached)
        yield from _rates(workload)
    for untimed in workload.untimed:
        yield Remark(f"{called(untimed.contender)}: not measured ({untimed.reason})", Tone.ASIDE)
    yield _remeasured(workload)


def took_text(workload: WorkloadPerformance) -> str:
    """Write the candidate's time with its noise: "131.2 µs, A/A noise ±0.6 %, 60 samples"."""
    own = workload.candidate
    once = f", 1/{ONCE_CALLS} of the {micros(own.once_us)} of launches marked once included" if own.once_us else ""
    return f"{micros(own.median_us)}, A/A noise ±{percent(workload.aa_noise)}, {counted(own.n, 'sample')}{once}"


def doubt_text(trial: Trial, workload: WorkloadPerformance) -> str:
    """Say why a time is no result; return "" where it is believed."""
    bound = suspect(trial, workload)
    if bound is None:
        return ""
    took, least = micros(workload.candidate.median_us), micros(bound.us)
    return f"SUSPECT, no result: {took} is less than the {least} that the work takes at least"


def reached_text(workload: WorkloadPerformance) -> str:
    """Write the share of the bound with what was counted: "78 % of the memory bound (959 µs for 4.05 GB)".

    A product that beats the bound of its own units ran on others: three products of split floats on tensor cores.
    """
    reached = share(workload)
    if reached is None or not reached.bound.us:
        return ""
    bound = reached.bound
    if not bound.moved_bytes and not bound.flops:  # a mean over workloads
        return reached.words
    work = data_size(bound.moved_bytes) if bound.by == "memory" else f"{bound.flops / 1e9:.3g} GFLOP on {bound.pipe}"
    beaten = "; other units need less" if bound.by == "compute" and reached.fraction > _BEATEN else ""
    return f"{reached.words} ({micros(bound.us)} for {work}{beaten})"


def _rates(workload: WorkloadPerformance) -> Iterator[Remark]:
    took, reached = workload.candidate.median_us, share(workload)
    if reached and took:
        yield Remark(f"{reached.bound.moved_bytes / took / 1e6:.3g} TB/s")
        if reached.bound.flops:
            yield Remark(f"{reached.bound.flops / took / 1e6:.3g} TFLOP/s")


def fresh_process(trial: Trial) -> Iterator[Section]:
    """Compare the times with those of a fresh process, where they were measured again."""
    for workload in trial.performance.workloads if trial.performance else ():
        if workload.remeasured_us is not None:
            name = workload.workload
            yield Section(Topic.SPEED, f"Speed on workload {name}", (_remeasured(workload),), name)


def _remeasured(workload: WorkloadPerformance) -> Remark:
    again = workload.remeasured_us
    if again is None:
        return Remark("not measured again in a fresh process", Tone.ASIDE)
    moved = again / workload.candidate.median_us - 1
    said = f"measured again in a fresh process: {micros(again)}, {100 * moved:+.2g} %"
    if abs(moved) <= STABLE:
        return Remark(said, Tone.ASIDE)
    return Remark(f"{said}, more than {percent(STABLE)}: UNSTABLE", Tone.DOUBTFUL)


def _times(workload: WorkloadPerformance) -> Section:
    columns = ("µs", "median", "p10", "p90", "A/A", "n", "dropped", "method")
    remarks = tuple(_time(timing) for timing in workload.timings)
    return Section(Topic.TIMES, f"Times on workload {workload.workload}", remarks, workload.workload, columns)


def _time(timing: Timing) -> Remark:
    name, noise = called(timing.contender), percent(timing.noise)
    times = (timing.median_us, timing.p10_us, timing.p90_us)
    median, low, high = map(micros, times)
    dropped = f", {timing.dropped} dropped" if timing.dropped else ""
    return Remark(
        f"{name}: {median} (p10 {low}, p90 {high}, A/A noise ±{noise}, {counted(timing.n, 'sample')}{dropped}, "
        f"{timing.method})",
        cells=(name, *(f"{us:.5g}" for us in times), noise, str(timing.n), str(timing.dropped), timing.method),
    )


def _speedups(workload: WorkloadPerformance) -> Section:
    """Compare with every contender, the strongest baseline first."""
    columns = ("vs", "speedup", "95 % interval", "this kernel is")
    first = strongest(workload)
    remarks = tuple(_speedup(speedup) for speedup in sorted(workload.speedups, key=lambda s: s is not first))
    title = f"Comparisons on workload {workload.workload}"
    return Section(Topic.SPEEDUPS, title, remarks, workload.workload, columns)


def _speedup(speedup: Speedup) -> Remark:
    ratio = f"{speedup.ratio:.3f}x"
    return Remark(
        f"{pace_against(speedup)} (speedup {ratio}, 95 % interval {interval(speedup)})",
        TONES[speedup.word],
        cells=(called(speedup.baseline), ratio, interval(speedup), pace(speedup)),
    )


def _conditions(workload: WorkloadPerformance) -> Section:
    title = f"Conditions on workload {workload.workload}"
    remarks = tuple(condition_remarks(workload.conditions))
    return Section(Topic.CONDITIONS, title, remarks, workload.workload, ("condition", ""), numbers_from=9)


def condition_remarks(found: Conditions) -> Iterator[Remark]:
    """Describe all conditions of a measurement, the device first; a doubtful one may have disturbed it."""
    throttled, others = ", ".join(found.throttled), found.other_processes
    yield _condition("device", f"{found.device}, driver {found.driver}")
    yield _condition("SM clock", f"{_span(found.sm_clock_mhz)} MHz; memory {found.memory_clock_mhz} MHz")
    yield _condition("temperature, power", f"{_span(found.temperature_c)} °C, {_span(found.power_w)} W")
    yield (
        _condition("throttled", f"{throttled}: the affected samples were dropped", Tone.DOUBTFUL) if throttled
        else _condition("throttled", "no")
    )  # fmt: skip
    yield (
        _condition("other programs on the GPU", f"{others}: may have disturbed the measurement", Tone.DOUBTFUL)
        if others
        else _condition("other programs on the GPU", "none")
    )
    flushed = f"L2 flushed by writing {found.flushed_bytes / 1e6:.0f} MB"
    yield _condition("between samples", f"{flushed}; {counted(found.sets, 'buffer set')}")
    yield _condition("waited for the device", f"{found.lock_wait_s:.2f} s")


def _condition(name: str, text: str, tone: Tone = Tone.ASIDE) -> Remark:
    return Remark(f"{name}: {text}", tone, cells=(name, text))


def _span(values: tuple[float, float]) -> str:
    low, high = values
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
