"""Find the fastest of many points by successive halving that knows how noisy its times are.

1. Each round times all points that are left, side by side, for more turns than the round before (`TURNS`).
2. Each point then has an estimate: the median of all its samples, and the error of that median.
3. A point stays if it could still be more than `WORTH` faster than the leader, two errors allowed; at most half stay.
4. It ends when one point is left, or the turns are used up.

Halving bounds the cost: 2.5 to 2.75 turns a point, where every point in turn would get `FULL_TURNS`. The errors end it
sooner on quiet devices, and leave alone what cannot be told apart (Jamieson and Talwalkar, "Non-stochastic best arm
identification", AISTATS 2016; Even-Dar et al., "Action elimination and stopping conditions", JMLR 2006).

This module knows no GPU: `measure` does the timing, in a sweep as in the simulator of the benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

TURNS = (1, 1, 2, 4, 4)
"""Turns of each round; a turn is one contender's share of samples (`timing.schedule`)."""

FULL_TURNS = 12
"""Turns of a contender in an ordinary measurement (`timing.schedule.MOST_ROUNDS`)."""

WORTH = 0.005
ERRORS = 2.0
UNSEEN_NOISE = 0.01
"""Noise of a sample where no point has two samples to tell."""

PROCESS_NOISE = 0.003
"""Difference between two processes that run one kernel, which no number of samples takes away."""

_FEW = 5
"""Up to so many samples a point's own spread says too little."""

Measure = Callable[[Sequence[int], int], Mapping[int, Sequence[float]]]
"""Time points side by side for some turns; return each one's samples, in times of the defaults. Lost points are left
out."""


class TimeEstimate(NamedTuple):
    """Time of a point in times of the defaults, and the standard error of it."""

    ratio: float
    error: float


@dataclass(frozen=True)
class Round:
    """The beginning of a round, for who follows: its number from 1, the points left, the leader so far."""

    number: int
    points: Sequence[int]
    leader: TimeEstimate | None


@dataclass
class Halving:
    """The result.

    Attributes:
        left: the points that were never left out, the fastest first.
        ranking: all timed points, the fastest first; those of later rounds go before those of earlier ones.
        path: estimates of a point after each round that it took part in.
    """

    left: list[int] = field(default_factory=list)
    ranking: list[int] = field(default_factory=list)
    path: dict[int, list[TimeEstimate]] = field(default_factory=dict)


def halve(points: Sequence[int], measure: Measure, begins: Callable[[Round], None] = lambda _: None) -> Halving:
    """Time the points until one is left or the turns are used up."""
    left, samples, found = list(points), dict[int, list[float]](), Halving()
    leader: TimeEstimate | None = None
    for number, turns in enumerate(TURNS, 1):
        begins(Round(number, tuple(left), leader))
        taken = measure(left, turns)
        for point, more in taken.items():
            samples.setdefault(point, []).extend(more)
        estimates = estimate({point: samples[point] for point in left if taken.get(point)})
        for point, value in estimates.items():
            found.path.setdefault(point, []).append(value)
        left = choose(estimates)
        if not left:
            break
        leader = estimates[left[0]]
        if len(left) == 1:
            break
    found.left = left
    found.ranking = sorted(found.path, key=lambda p: (p not in left, -len(found.path[p]), found.path[p][-1].ratio))
    return found


def most_rounds(points: int) -> int:
    """Return after how many rounds one point is left at the latest."""
    return max(1, min(len(TURNS), math.ceil(math.log2(max(1, points)))))


def estimate(samples: Mapping[int, Sequence[float]]) -> dict[int, TimeEstimate]:
    """Return the median of each point and its error; a point is at least as noisy as all points together.

    The error counts twice, since the times of the defaults, in which a sample is given, have one as large.
    """
    spread = {point: _deviations(each) for point, each in samples.items() if len(each) > 1}
    shared = _scale([d for each in spread.values() for d in each]) if spread else UNSEEN_NOISE
    found = {}
    for point, each in samples.items():
        own = _scale(spread[point]) if len(each) > _FEW else shared
        ratio, sampling = median(each), 1.25 * max(own, shared) / math.sqrt(len(each))
        found[point] = TimeEstimate(ratio, ratio * math.hypot(sampling, sampling, PROCESS_NOISE))
    return found


def choose(estimates: Mapping[int, TimeEstimate]) -> list[int]:
    """Return the points for the next round, the leader first."""
    ordered = sorted(estimates, key=lambda point: estimates[point].ratio)
    hopeful = [p for p in ordered[1:] if could_lead(estimates[p], estimates[ordered[0]])]
    return [*ordered[:1], *hopeful][: math.ceil(len(ordered) / 2)]


def could_lead(one: TimeEstimate, leader: TimeEstimate) -> bool:
    """Return whether a point may be more than `WORTH` faster than the leader."""
    return one.ratio - ERRORS * math.hypot(one.error, leader.error) < leader.ratio * (1.0 - WORTH)


def _deviations(samples: Sequence[float]) -> list[float]:
    """Return relative distances from the median, as large as they would be from the true one."""
    middle, few = median(samples), len(samples)
    return [abs(s / middle - 1.0) * math.sqrt(few / (few - 1)) for s in samples]


def _scale(deviations: Sequence[float]) -> float:
    """Return the standard deviation that these deviations show, outliers set aside (1.4826 MAD)."""
    return 1.4826 * median(deviations)
