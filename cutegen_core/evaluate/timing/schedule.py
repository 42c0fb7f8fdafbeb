"""Plan a measurement: how many samples of each contender, in which order.

Each contender gets about 0.3 s of samples, at least 4: this gives 30 or more below 10 ms. The maximum is 96, or 288 for
a kernel so short that the clock's resolution (32 ns) and the launch show in every sample. The samples are spread over
up to 12 rounds, or 6 if these say enough; each round measures every contender once, forwards and backwards in turn
(A B C, C B A, ...), so that drift affects all alike. A baseline far slower than the candidate skips rounds. A kernel of
50 ms or more is measured without warm-up, one of half a second or more by two samples, so that a first, naive kernel
that takes seconds a run has its verdict after six runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

SERIES_S = 0.3
LEAST, MOST, MOST_SHORT = 4, 96, 288
LEAST_VERY_SLOW = 2
SHORT_US, SLOW_US, VERY_SLOW_US = 50.0, 50_000.0, 500_000.0
MOST_ROUNDS = 12
HALF_ROUNDS, FEWEST_SAMPLES = 6, 30
"""Rounds after which a measurement may end, with so many samples of each contender. The second measurement has no more:
it tells a difference of 2 %, not of a half."""
MOST_SETS = 28
"""Buffer sets of one measurement, without the warm-up set."""
LEAST_A_TURN = 3
_WARM_S = 0.002
_MOST_WARM_RUNS = 50
_PATIENCE, _LEAST_LIMIT_S = 20.0, 10.0


@dataclass(frozen=True)
class RoundShare:
    """A contender's part in a round.

    Attributes:
        order: the sets it is timed on.
        every: it takes part in every `every`-th round.
        warm_runs: runs before the first sample; 0 for a slow kernel.
        seconds: wall-clock limit of the round.
    """

    order: tuple[int, ...]
    every: int
    warm_runs: int
    seconds: float


def count_rounds(candidate_us: float) -> int:
    """Return the number of rounds; an even one, so that each order occurs as often as its reverse."""
    wanted = min(MOST_ROUNDS, count_samples(candidate_us))
    return wanted + wanted % 2


def plan_share(us: float, count: int, sets: Sequence[int]) -> RoundShare:
    """Return the share of a contender whose samples take about `us`, in `count` rounds over these sets."""
    wanted = count_samples(us)
    order = tuple(sets)[: max(1, math.ceil(wanted / count))]
    taken = max(_fewest(us), math.ceil(wanted / len(order)))
    warm_runs = 0 if us >= SLOW_US else min(_MOST_WARM_RUNS, max(1, math.ceil(_WARM_S * 1e6 / us)))
    return RoundShare(order, max(1, count // taken), warm_runs, _limit(len(order) + warm_runs, us))


def plan_one_run(us: float, sets: Sequence[int]) -> RoundShare:
    """Return a round of a single run, without warm-up, of a kernel that takes about `us`."""
    return RoundShare(tuple(sets)[:1], 1, 0, _limit(1, us))


def plan_turn(us: float, sets: Sequence[int]) -> RoundShare:
    """Return the share of one of many equals: a twelfth of an ordinary measurement, but at least three samples."""
    share = plan_share(us, MOST_ROUNDS, sets)
    return replace(share, order=tuple(sets)[: max(LEAST_A_TURN, len(share.order))], every=1)


def count_samples(us: float) -> int:
    """Return the number of samples to take of a contender whose samples take about `us`."""
    most = MOST_SHORT if us < SHORT_US else MOST
    return min(most, max(_fewest(us), math.ceil(SERIES_S * 1e6 / max(us, 1e-3))))


def _fewest(us: float) -> int:
    return LEAST if us < VERY_SLOW_US else LEAST_VERY_SLOW


def _limit(runs: int, us: float) -> float:
    """Return the wall-clock limit in seconds of that many runs."""
    return _LEAST_LIMIT_S + _PATIENCE * runs * us / 1e6


def iterate_turns(shares: Mapping[str, RoundShare], rounds: range) -> Iterator[tuple[int, str]]:
    """Yield round and contender, in the order of measuring."""
    names = list(shares)
    for number in rounds:
        for name in names if number % 2 == 0 else reversed(names):
            if number % shares[name].every == 0:
                yield number, name
