"""Time many points side by side although only a few processes fit on a device: in heats, each with the same anchor.

Every heat times the anchor, too, and its points count in times of the anchor, so that clocks and heat which differ from
one heat to the next cancel. Several benchmark workloads count as one: sample by sample, the geometric mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.timing.statistics import geometric_mean

HEAT = 8
"""Points of a heat. With the anchor nine processes; each has a context and flush buffers, less than 1 GB on an H200."""

RunHeat = Callable[[Sequence[int], int], Sequence[RaceResult]]
"""Time these points for some turns, each by its number; return a result for each workload."""


class NotTimedError(Exception):
    """The anchor could not be timed, so no point can be compared; the text says why."""


@dataclass
class Heats:
    """Measures for `halving`; `measure` is its port.

    Attributes:
        anchor: a point that every heat times, the defaults if possible.
        anchor_us: its times, one a heat; of several workloads the geometric mean.
        lost: points that failed, and why.
        turns: all turns so far, the anchor's too: what the sweep has cost.
    """

    run: RunHeat
    anchor: int
    anchor_us: list[float] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    turns: int = 0

    def measure(self, points: Sequence[int], turns: int) -> Mapping[int, Sequence[float]]:
        """Time the points, the anchor in each heat; raises NotTimedError where that cannot be timed."""
        others = [point for point in points if point != self.anchor]
        found: dict[int, Sequence[float]] = {}
        for heat in split(others):
            found |= self._measure_heat(heat, turns)
        return {point: found[point] for point in points if point in found}

    def _measure_heat(self, heat: Sequence[int], turns: int) -> Mapping[int, Sequence[float]]:
        results = self.run([self.anchor, *heat], turns)
        self.turns += turns * (1 + len(heat)) * len(results)
        for result in results:
            self.lost |= {int(name): reason for name, reason in result.lost.items()}
        kept = [point for point in (self.anchor, *heat) if all(str(point) in r.samples_us for r in results)]
        if self.anchor not in kept:
            reasons = [result.not_timed for result in results if result.not_timed]
            raise NotTimedError(next(iter(reasons), self.lost.get(self.anchor, "the defaults could not be timed")))
        by_point = {point: merge([result.samples_us[str(point)] for result in results]) for point in kept}
        base = median(by_point[self.anchor])
        self.anchor_us.append(base)
        return {point: [us / base for us in samples] for point, samples in by_point.items()}


def split(points: Sequence[int]) -> list[Sequence[int]]:
    """Return heats of nearly equal size, in order, so that the first need not wait until the last points are compiled.

    There is one for no points, since the anchor is a point, too.
    """
    count = max(1, math.ceil(len(points) / HEAT))
    bounds = [len(points) * i // count for i in range(count + 1)]
    return [points[begin:end] for begin, end in itertools.pairwise(bounds)]


def merge(workloads: Sequence[Sequence[float]]) -> list[float]:
    """Return the geometric mean over the workloads, sample by sample; the shortest decides how many."""
    return [geometric_mean(together) for together in zip(*workloads, strict=False)]
