"""Summarise the trial of a variant in the few numbers that a comparison table shows."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.evaluate.stages.watch import SilentWatch, Watch
from cutegen_core.evaluate.timing.overall import overall, shape_times
from cutegen_core.records.performance import BEST, ShapeTime, Word
from cutegen_core.records.trial import Resources, Status, Trial


@dataclass(frozen=True)
class VariantResult:
    """Result of one variant.

    Attributes:
        registers, spill_bytes: largest of any kernel, sum over all kernels.
        occupancy: lowest over all workloads' launches, 0 to 1.
        latency_ms: median, over several benchmark workloads their geometric mean; None if nothing was timed.
        word: comparison with the kernel timed in turns with it.
        shapes: each benchmark workload, where there are several.
    """

    status: Status
    message: str = ""
    registers: int = 0
    spill_bytes: int = 0
    occupancy: float = 0.0
    latency_ms: float | None = None
    word: Word | None = None
    shapes: tuple[ShapeTime, ...] = ()


def summarize_trial(trial: Trial) -> VariantResult:
    """Return the numbers of a trial."""
    resources = trial.resources
    if resources is None:
        return VariantResult(trial.status, trial.message)
    timed = overall(trial.performance) if trial.passed else None
    beside = timed.speedup(BEST) if timed else None
    return VariantResult(
        trial.status,
        trial.message,
        *summarize_resources(resources),
        latency_ms=timed.candidate.median_us / 1000 if timed else None,
        word=beside.word if beside else None,
        shapes=shape_times(trial.performance) if timed else (),
    )


def summarize_resources(resources: Resources) -> tuple[int, int, float]:
    """Return registers, spilled bytes and occupancy, as in `VariantResult`."""
    return (
        max((k.registers for k in resources.kernels), default=0),
        resources.spill_bytes,
        min((o.occupancy for o in resources.occupancy), default=0.0),
    )


class StopOnlyWatch(SilentWatch):
    """Watch that hides the stages of a variant, which are not the step's own, and passes on only a stop."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def stopped(self) -> bool:
        return self._watch.stopped()
