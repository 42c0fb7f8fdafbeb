"""One of several variants of a kernel, tried for comparison: what came of it, in the few numbers a table shows."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.evaluate.stages.watch import Quiet, Watch
from cutegen_core.records.performance import BEST, Word
from cutegen_core.records.trial import Status, Trial


@dataclass(frozen=True)
class Spent:
    """The outcome of one variant.

    Attributes:
        registers, spill_bytes: the most of any kernel, the sum of all.
        occupancy: the lowest over all workloads' launches, 0 to 1.
        latency_ms: median on the problem's own size, None where nothing was timed.
        word: against the kernel it was timed in turns with.
    """

    status: Status
    message: str = ""
    registers: int = 0
    spill_bytes: int = 0
    occupancy: float = 0.0
    latency_ms: float | None = None
    word: Word | None = None


def spent(trial: Trial) -> Spent:
    """The numbers of a trial."""
    resources = trial.resources
    if resources is None:
        return Spent(trial.status, trial.message)
    timed = trial.performance.first if trial.passed and trial.performance else None
    beside = timed.speedup(BEST) if timed else None
    return Spent(
        trial.status,
        trial.message,
        registers=max((k.registers for k in resources.kernels), default=0),
        spill_bytes=resources.spill_bytes,
        occupancy=min((o.occupancy for o in resources.occupancy), default=0.0),
        latency_ms=timed.candidate.median_us / 1000 if timed else None,
        word=beside.word if beside else None,
    )


class OnlyStops(Quiet):
    """The stages of a variant are not the step's own; only stopping is passed on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def stopped(self) -> bool:
        return self._watch.stopped()
