"""The figures of a run: where the time of an epoch went, and the ratios P and C, with what bounds a kernel's gain."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from cutegen_core.records.gnn import EpochReport, RunSettings, Stage
from cutegen_core.records.wording import ratio
from cutegen_core.views.gnn.runs import RunView

_WORDS = {Stage.PREPARE: "preparing batches", Stage.TRANSFER: "copying", Stage.COMPUTE: "computing"}


class Wait(NamedTuple):
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
        gain: what a kernel that takes no time would give at most (Amdahl); None where its share was not measured.
        edges_per_thread_s: sampled edges per second and thread, slicing of features included.
    """

    epoch: EpochReport
    prepare: float
    transfer: float
    compute: float
    longest: Stage
    p: float
    c: float | None
    share: float | None
    gain: float | None
    edges_per_thread_s: float | None


def figures(view: RunView) -> Figures | None:
    """Return the figures of the run; None before its first epoch.

    The first epoch of several is left out: it warms caches and allocates.
    """
    epochs = view.epochs[1:] or view.epochs
    timed = sorted((epoch for epoch in epochs if epoch.seconds > 0), key=lambda epoch: epoch.seconds)
    if not timed:
        return None
    epoch = timed[len(timed) // 2]
    times = epoch.times
    stages = {
        Stage.PREPARE: times.prepare / max(1, times.threads),
        Stage.TRANSFER: times.transfer,
        Stage.COMPUTE: times.compute,
    }
    longest = max(stages, key=lambda stage: stages[stage])
    only = view.result.compute_only_s if view.result else None
    share = view.result.aggregate_share if view.result else None
    return Figures(
        epoch, stages[Stage.PREPARE], stages[Stage.TRANSFER], stages[Stage.COMPUTE], longest,
        epoch.seconds / stages[longest] if stages[longest] else 1.0,
        epoch.seconds / only if only else None,
        share, _gain(epoch, stages, share),
        epoch.edges / times.prepare if times.prepare else None,
    )  # fmt: skip


def _gain(epoch: EpochReport, stages: dict[Stage, float], share: float | None) -> float | None:
    """Return the bound on the gain: the epoch loses the aggregation's time, and stays above its other stages."""
    if share is None:
        return None
    without = epoch.seconds - share * stages[Stage.COMPUTE]
    floor = max(without, stages[Stage.PREPARE], stages[Stage.TRANSFER])
    return epoch.seconds / min(floor, epoch.seconds) if floor > 0 else None


def bound_words(found: Figures) -> str:
    """Say in one sentence what the best kernel could give here; "" where the share was not measured."""
    if found.share is None or found.gain is None:
        return ""
    others = max(found.prepare, found.transfer)
    why = f"aggregation is {found.share:.0%} of the compute time"
    if others >= found.compute * (1 - found.share):
        stage = Stage.PREPARE if found.prepare >= found.transfer else Stage.TRANSFER
        why += f", and an epoch cannot be shorter than {_WORDS[stage]}"
    return f"This kernel can give at most {ratio(found.gain)} here: {why}."


def waits(epoch: EpochReport) -> tuple[Wait, ...]:
    """Return the exposed times of an epoch, in words."""
    named = (("batches to be prepared", epoch.times.waited_prepare), ("copies", epoch.times.waited_transfer))
    total = epoch.seconds or 1.0
    return tuple(Wait(f"waited for {what}", seconds, seconds / total) for what, seconds in named)


def limit_words(found: Figures, settings: RunSettings) -> str:
    """Say what bounds the epoch, and so what would make it shorter."""
    stage = _WORDS[found.longest]
    said = f"The longest stage is {stage}"
    if settings.mode == "serial":
        return f"{said}; nothing overlaps in serial mode."
    advice = {
        Stage.PREPARE: "more threads, smaller fanouts or features on the device help; a faster kernel does not",
        Stage.TRANSFER: "features on the device help; a faster kernel does not",
        Stage.COMPUTE: "a faster kernel or bf16 helps",
    }
    return f"{said}: {advice[found.longest]}."


def typical_epoch_s(view: RunView) -> float | None:
    """Return the median time of an epoch, the first of several left out."""
    epochs = view.epochs[1:] or view.epochs
    return median(epoch.seconds for epoch in epochs) if epochs else None
