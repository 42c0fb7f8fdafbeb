"""Successive halving with drawn times: it finds the best point for a third of the timing, or a point as good."""

import math
from itertools import pairwise

import pytest

from benchmarks.timing.tuner_simulated import LANDSCAPES, LARGEST_REGRET, LARGEST_SHARE, NOISES, simulate
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.tuning.halving import (
    FULL_TURNS,
    TURNS,
    WORTH,
    TimeEstimate,
    choose,
    could_lead,
    estimate,
    halve,
    most_rounds,
)
from cutegen_core.evaluate.tuning.heats import HEAT, Heats, NotTimedError, merge, split


def quiet(times, seen=None):
    """Measure without noise; `seen` collects the points and turns of each round."""

    def measure(points, turns):
        if seen is not None:
            seen.append((list(points), turns))
        return {p: [times[p] * (1 + 0.001 * (i % 3 - 1)) for i in range(3 * turns)] for p in points if p in times}

    return measure


def test_half_of_the_points_stay_at_most_and_each_round_times_them_longer():
    seen, rounds = [], []
    found = halve(range(32), quiet({p: 1.0 + 0.0001 * p for p in range(32)}, seen), rounds.append)
    sizes = [len(points) for points, _ in seen]
    assert all(after <= math.ceil(before / 2) for before, after in pairwise(sizes))
    assert [turns for _, turns in seen] == list(TURNS[: len(seen)])
    assert [each.number for each in rounds] == [*range(1, len(seen) + 1)]
    assert len(seen) <= most_rounds(32)
    assert found.ranking[0] in range(4)
    assert sorted(found.ranking) == [*range(32)]


def test_points_that_cannot_be_the_best_are_left_out_at_once():
    seen = []
    found = halve(range(16), quiet({p: 1.0 + 0.1 * p for p in range(16)}, seen))
    assert len(seen) == 1
    assert found.ranking == [*range(16)]
    assert found.left == [0]


def test_noise_keeps_points_in_that_may_be_the_best():
    still = {
        0: TimeEstimate(1.0, 0.001),
        1: TimeEstimate(1.02, 0.001),
        2: TimeEstimate(1.3, 0.001),
        3: TimeEstimate(1.31, 0.001),
    }
    assert choose(still) == [0]
    noisy = {point: TimeEstimate(each.ratio, 0.02) for point, each in still.items()}
    assert choose(noisy) == [0, 1]
    assert could_lead(noisy[1], noisy[0])
    assert not could_lead(TimeEstimate(1.0 - WORTH / 2, 0.0), TimeEstimate(1.0, 0.0)), (
        "half a per cent is not worth a round"
    )


def test_a_lost_point_is_left_out_and_the_others_go_on():
    found = halve(range(4), quiet({0: 1.0, 2: 0.9, 3: 1.4}))
    assert found.ranking == [2, 0, 3]
    assert halve(range(3), lambda points, turns: {}).ranking == []


def test_an_outlier_moves_neither_the_estimate_nor_its_error():
    clean = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0]
    plain, spoiled = estimate({0: clean})[0], estimate({0: [*clean, 3.0]})[0]
    assert spoiled.ratio == pytest.approx(plain.ratio, rel=0.005)
    assert spoiled.error < 1.5 * plain.error


def test_the_drift_between_heats_cancels():
    heats_seen = []

    def run(points, turns):
        drift = 1.0 + 0.2 * len(heats_seen)
        heats_seen.append(points)
        return [RaceResult({str(p): (10.0 * drift * (1 + p / 100),) * turns for p in points})]

    heats = Heats(run, anchor=0)
    found = heats.measure(range(30), 2)
    assert all(found[p] == pytest.approx([1 + p / 100] * 2) for p in range(30))
    assert all(heat[0] == 0 for heat in heats_seen)
    assert max(map(len, heats_seen)) <= HEAT + 1
    assert heats.turns == 2 * (30 + len(heats_seen) - 1)


def test_a_heat_without_the_defaults_compares_nothing():
    crashed = RaceResult({"1": (1.0,)}, {"0": "RUNTIME_ERROR: it crashed"})
    with pytest.raises(NotTimedError, match="it crashed"):
        Heats(lambda points, turns: [crashed], anchor=0).measure([0, 1], 1)
    with pytest.raises(NotTimedError, match="no room"):
        Heats(lambda points, turns: [RaceResult(not_timed="no room")], anchor=0).measure([0, 1], 1)


def test_workloads_count_as_their_geometric_mean():
    assert merge([(1.0, 4.0), (4.0, 1.0, 7.0)]) == pytest.approx([2.0, 2.0])
    assert [point for heat in split(range(29)) for point in heat] == [*range(29)], "in the order of compiling"
    assert {len(heat) for heat in split(range(29))} == {7, 8}
    assert len(split(range(29))) == 4


def test_within_three_per_cent_for_a_third_of_the_timing():
    rows = simulate(seeds=12)
    assert len(rows) >= 3 * len(LANDSCAPES) >= 5 * len(NOISES)
    for name, row in rows.items():
        assert row["regret_max"] <= LARGEST_REGRET, name
        assert row["share_max"] <= LARGEST_SHARE, name
    assert FULL_TURNS == 12
