"""The figures of a run: where the time of an epoch went, and the ratios P and C, with what bounds a kernel's gain."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from cutegen_core.records.gnn import BatchStage, EpochReport, PipelineMode, RunSettings
from cutegen_core.records.wording import ratio
from cutegen_core.views.gnn.runs import RunView

_WORDS = {BatchStage.PREPARE: "preparing batches", BatchStage.TRANSFER: "copying", BatchStage.COMPUTE: "computing"}
_ADVICE = {
    BatchStage.PREPARE: "more threads, smaller fanouts or features on the device help; a faster kernel does not",
    BatchStage.TRANSFER: "features on the device help; a faster kernel does not",
    BatchStage.COMPUTE: "a faster kernel or bf16 helps",
}


class ExposedWait(NamedTuple):
    """Time that the trainer had nothing to do but wait; `share` is of the epoch."""

    words: str
    seconds: float
    share: float


class Figures(NamedTuple):
    """Figures of a run's typical epoch, the one of median time; seconds.

    Attributes:
        longest: the stage that takes longest, and so bounds a pipelined epoch from below.
        p: epoch over its longest stage; 1 is a perfect overlap.
        c: epoch over compute only; None where that was not measured.
        over_serial: the serial epoch over the pipelined one; None where only one was run.
        edges_per_thread_s: sampled edges per second and thread, slicing of features included.
    """

    epoch: EpochReport
    prepare: float
    transfer: float
    compute: float
    longest: BatchStage
    p: float
    c: float | None
    over_serial: float | None
    edges_per_thread_s: float | None


class KernelBound(NamedTuple):
    """What a kernel that takes no time would give at most (Amdahl).

    Attributes:
        share: of the compute time, what aggregation takes.
        other: the stage that then bounds the epoch; None where it is what is left of computing.
    """

    gain: float
    share: float
    other: BatchStage | None


def figures(view: RunView) -> Figures | None:
    """Return the figures of the run; None before its first epoch."""
    epoch = typical(view.epochs)
    if epoch is None:
        return None
    stages = _stages(epoch)
    longest = max(stages, key=lambda stage: stages[stage])
    only = view.result.compute_only_s if view.result else None
    edges = epoch.edges / epoch.times.prepare if epoch.times.prepare else None
    return Figures(
        epoch, stages[BatchStage.PREPARE], stages[BatchStage.TRANSFER], stages[BatchStage.COMPUTE], longest,
        epoch.seconds / stages[longest] if stages[longest] else 1.0,
        epoch.seconds / only if only else None, _over_serial(view, epoch), edges,
    )  # fmt: skip


def typical(epochs: Sequence[EpochReport]) -> EpochReport | None:
    """Return the epoch of median time. The first of several is left out: it warms caches and allocates."""
    timed = sorted((epoch for epoch in epochs[1:] or epochs if epoch.seconds > 0), key=lambda epoch: epoch.seconds)
    return timed[len(timed) // 2] if timed else None


def typical_s(epochs: Sequence[EpochReport]) -> float | None:
    """Return the median time of an epoch, the first of several left out."""
    counted = epochs[1:] or epochs
    return median(epoch.seconds for epoch in counted) if counted else None


def _stages(epoch: EpochReport) -> dict[BatchStage, float]:
    times = epoch.times
    return {
        BatchStage.PREPARE: times.prepare / max(1, times.threads),
        BatchStage.TRANSFER: times.transfer,
        BatchStage.COMPUTE: times.compute,
    }


def _over_serial(view: RunView, epoch: EpochReport) -> float | None:
    aggregate = view.settings.aggregate
    other = typical([o for o in view.others if o.aggregate == aggregate and o.mode not in (None, view.settings.mode)])
    if other is None:
        return None
    serial, pipelined = (other, epoch) if other.mode is PipelineMode.SERIAL else (epoch, other)
    return serial.seconds / pipelined.seconds


def bound(epoch: EpochReport, share: float | None, compute_only_s: float | None) -> KernelBound | None:
    """Return the bound on a kernel's gain: the epoch loses the aggregation's time, and stays above its other stages.

    Args:
        epoch: a typical one with PyTorch's best aggregation.
        share: of the time to compute, what it takes; None where that was not measured.
        compute_only_s: an epoch's time to compute with batches that lie ready, where it was measured.
    """
    if share is None:
        return None
    stages = _stages(epoch)
    left = epoch.seconds - share * (compute_only_s or stages[BatchStage.COMPUTE])
    other = max((BatchStage.PREPARE, BatchStage.TRANSFER), key=lambda stage: stages[stage])
    shortest = min(max(left, stages[other]), epoch.seconds)
    if shortest <= 0:
        return None
    return KernelBound(epoch.seconds / shortest, share, other if stages[other] > left else None)


def bound_words(found: KernelBound) -> str:
    """Say the bound in one sentence."""
    why = f"aggregation is {100 * found.share:.0f} % of the time to compute"
    if found.other:
        why += f", and an epoch cannot be shorter than {_WORDS[found.other]}"
    return f"A kernel can give at most {ratio(found.gain)} here: {why}."


def waits(epoch: EpochReport) -> tuple[ExposedWait, ...]:
    """Return the exposed times of an epoch, in words."""
    named = (("batches to be prepared", epoch.times.waited_prepare), ("copies", epoch.times.waited_transfer))
    total = epoch.seconds or 1.0
    return tuple(ExposedWait(f"waited for {what}", seconds, seconds / total) for what, seconds in named)


def limit_words(found: Figures, settings: RunSettings) -> str:
    """Say what bounds the epoch, and so what would make it shorter."""
    said = f"The longest stage is {_WORDS[found.longest]}"
    if found.longest is BatchStage.COMPUTE and settings.device.startswith("sleep:"):
        return "The longest stage is the declared sleep; what is hidden behind it costs nothing."
    if settings.mode is PipelineMode.SERIAL:
        return f"{said}; nothing overlaps in serial mode."
    return f"{said}: {_ADVICE[found.longest]}."
