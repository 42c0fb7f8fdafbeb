"""Runs beside one another: the same settings with another aggregation, or with other numbers of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cutegen_core.records.gnn import KERNEL_PREFIX, RunSettings
from cutegen_core.trajectory.store import Store
from cutegen_core.views.gnn.figures import typical_epoch_s
from cutegen_core.views.gnn.runs import RunView, finished_runs


class Side(NamedTuple):
    """One aggregation's run; `speedup` is over the best of PyTorch's (K), None for that itself or without one."""

    run: RunView
    epoch_s: float
    speedup: float | None
    is_shown: bool

    @property
    def plugged(self) -> bool:
        return self.run.settings.aggregate.startswith(KERNEL_PREFIX)


class Beside(NamedTuple):
    """All aggregations that ran with these settings, fastest first; `baseline` is PyTorch's best."""

    sides: tuple[Side, ...]
    baseline: Side | None


class RankPoint(NamedTuple):
    """The fastest run with this number of ranks."""

    ranks: int
    run: RunView
    epoch_s: float


def beside(store: Store, view: RunView) -> Beside:
    """Return the fastest run of each aggregation with this one's settings; this run is always among them."""
    alike = [run for run in finished_runs(store) if _alike(run, view, "aggregate")]
    best: dict[str, RunView] = {}
    for run in alike:
        name = run.settings.aggregate
        if name not in best or run.job.id == view.job.id or _faster(run, best[name], view):
            best[name] = run
    timed = {name: seconds for name, run in best.items() if (seconds := typical_epoch_s(run))}
    torchs = {name: seconds for name, seconds in timed.items() if not name.startswith(KERNEL_PREFIX)}
    base = min(torchs, key=lambda name: torchs[name]) if torchs else None
    sides = tuple(
        Side(best[name], seconds, timed[base] / seconds if base and name != base else None,
             best[name].job.id == view.job.id)
        for name, seconds in sorted(timed.items(), key=lambda pair: pair[1])
    )  # fmt: skip
    return Beside(sides, next((side for side in sides if side.run.settings.aggregate == base), None))


def _faster(run: RunView, kept: RunView, view: RunView) -> bool:
    if kept.job.id == view.job.id:
        return False
    return (typical_epoch_s(run) or float("inf")) < (typical_epoch_s(kept) or float("inf"))


def scaling(store: Store, view: RunView) -> tuple[RankPoint, ...]:
    """Return the fastest run for each number of ranks, with otherwise the settings of this one."""
    points: dict[int, RankPoint] = {}
    for run in finished_runs(store):
        seconds = typical_epoch_s(run)
        if seconds and _alike(run, view, "ranks"):
            ranks = run.settings.ranks
            if ranks not in points or seconds < points[ranks].epoch_s:
                points[ranks] = RankPoint(ranks, run, seconds)
    return tuple(points[ranks] for ranks in sorted(points))


def _alike(one: RunView, other: RunView, but: str) -> bool:
    """Return whether two runs differ in this setting at most, in where they keep checkpoints, and in the seed."""
    plain = RunSettings()

    def rest(settings: RunSettings) -> RunSettings:
        given = {but: getattr(plain, but), "checkpoint": "", "seed": 0, "epochs": 0, "trials": 1}
        return replace(settings, **given)

    machines = [run.result.machine.get("device") if run.result else None for run in (one, other)]
    return rest(one.settings) == rest(other.settings) and machines[0] == machines[1]
