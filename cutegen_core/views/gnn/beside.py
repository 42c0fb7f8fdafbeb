"""Runs beside one another: the same settings with another aggregation, or with other numbers of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cutegen_core.records.gnn import KERNEL_PREFIX, RunSettings
from cutegen_core.trajectory.store import Store
from cutegen_core.views.gnn.figures import KernelBound, bound, typical, typical_s
from cutegen_core.views.gnn.runs import RunView, finished_runs


class AggregateSide(NamedTuple):
    """One aggregation with these settings.

    Attributes:
        job: the run that measured it.
        bound: what a kernel instead of it would give at most; None where its share was not measured.
        loss: of the last epoch.
        speedup: over the best of PyTorch's (K); None for that itself, and without one.
    """

    aggregate: str
    job: str
    epoch_s: float
    compute_only_s: float | None
    bound: KernelBound | None
    loss: float | None
    accuracy: float | None
    speedup: float | None = None

    @property
    def plugged(self) -> bool:
        return self.aggregate.startswith(KERNEL_PREFIX)


class Beside(NamedTuple):
    """All aggregations that ran with these settings, fastest first.

    Attributes:
        baseline: PyTorch's best, over which K is counted; None where none ran.
        shown: the one of the run that is looked at.
        in_turns: whether one run measured all of them, epoch by epoch in turns.
    """

    sides: tuple[AggregateSide, ...]
    baseline: AggregateSide | None
    shown: AggregateSide | None
    in_turns: bool


class RankPoint(NamedTuple):
    """The fastest run with this number of ranks."""

    ranks: int
    job: str
    epoch_s: float


def beside(store: Store, view: RunView) -> Beside:
    """Return every aggregation: those that this run measured in turns, else the fastest run of each."""
    in_turns = view.result is not None and len(view.result.aggregates) > 1
    sides = _in_turns(view) if in_turns else _of_runs(store, view)
    torchs = [side for side in sides if not side.plugged]
    base = min(torchs, key=lambda side: side.epoch_s, default=None)
    if base:
        counted = [s for s in sides if s is not base and not (s.plugged and on_emulator(view.settings))]
        sides = [s._replace(speedup=base.epoch_s / s.epoch_s) if s in counted else s for s in sides]
    sides.sort(key=lambda side: side.epoch_s)
    shown = next((side for side in sides if side.aggregate == view.settings.aggregate), None)
    return Beside(tuple(sides), base, shown, in_turns)


def on_emulator(settings: RunSettings) -> bool:
    """Return whether a plugged kernel runs on the emulator, whose time says nothing about it."""
    return settings.device == "cpu"


def _in_turns(view: RunView) -> list[AggregateSide]:
    assert view.result is not None
    found = []
    for one in view.result.aggregates:
        epochs = [e for e in (*view.epochs, *view.others)
                  if e.aggregate == one.aggregate and e.mode in (None, view.settings.mode)]  # fmt: skip
        epoch = typical(epochs)
        least = bound(epoch, one.share, one.compute_only_s) if epoch else None
        loss = epochs[-1].loss if epochs else None
        found.append(AggregateSide(one.aggregate, view.job.id, one.epoch_s, one.compute_only_s, least, loss, None))
    return found


def _of_runs(store: Store, view: RunView) -> list[AggregateSide]:
    """Return the fastest run of each aggregation with this one's settings; of its own, this run itself."""
    best: dict[str, AggregateSide] = {}
    for run in (view, *finished_runs(store)):
        side = _side(run)
        if side and _alike(run, view, "aggregate"):
            kept = best.setdefault(side.aggregate, side)
            if side.epoch_s < kept.epoch_s and kept.job != view.job.id:
                best[side.aggregate] = side
    return list(best.values())


def _side(run: RunView) -> AggregateSide | None:
    epoch, seconds = typical(run.epochs), typical_s(run.epochs)
    if epoch is None or not seconds:
        return None
    result = run.result
    least = bound(epoch, result.aggregate_share, result.compute_only_s) if result else None
    only, accuracy = (result.compute_only_s, result.sampled_accuracy) if result else (None, None)
    return AggregateSide(run.settings.aggregate, run.job.id, seconds, only, least, run.epochs[-1].loss, accuracy)


def scaling(store: Store, view: RunView) -> tuple[RankPoint, ...]:
    """Return the fastest run for each number of ranks, with otherwise the settings of this one."""
    points: dict[int, RankPoint] = {}
    for run in finished_runs(store):
        seconds = typical_s(run.epochs)
        if seconds and _alike(run, view, "ranks"):
            point = RankPoint(run.settings.ranks, run.job.id, seconds)
            points[point.ranks] = min(points.get(point.ranks, point), point, key=lambda p: p.epoch_s)
    return tuple(points[ranks] for ranks in sorted(points))


def _alike(one: RunView, other: RunView, but: str) -> bool:
    """Return whether two runs differ in this setting at most, in how long they learn, in seed and folder."""
    plain = RunSettings()

    def rest(settings: RunSettings) -> RunSettings:
        settings = replace(settings, checkpoint="", seed=0, epochs=0, trials=1)
        return replace(settings, aggregate=plain.aggregate) if but == "aggregate" else replace(settings, ranks=1)

    machines = {run.result.machine.get("device") for run in (one, other) if run.result}
    return rest(one.settings) == rest(other.settings) and len(machines) <= 1
