"""The words FASTER, SAME and SLOWER on synthetic clocks whose true ratio is known."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.evaluate.timing.statistics import (
    NOISE_FLOOR,
    Ratio,
    aa_noise,
    bootstrap_ratio,
    compute_speedup,
    decide_word,
    disagree,
    fast_p,
    geometric_mean,
    summarize_timing,
)
from cutegen_core.records.performance import Word

ROUNDS, PER_ROUND = 12, 8
ALL_SEEDS = pytest.mark.parametrize("pairs", [10, pytest.param(100, marks=pytest.mark.thorough)])


def quiet(random, at):
    """Draw samples with 0.3 % of noise."""
    return np.exp(random.normal(0, 0.003, at.shape))


def noisy(random, at):
    """Draw samples with 1 % of noise, one in thirty far off."""
    outliers = 1 + 0.3 * (random.random(at.shape) < 1 / 30)
    return np.exp(random.normal(0, 0.01, at.shape)) * outliers


def drifting(random, at):
    """Return the clock loses 3 % while measuring, with a walk on top."""
    walk = np.cumsum(random.normal(0, 0.001, at.size)).reshape(at.shape)
    return quiet(random, at) * (1 + 0.03 * at / at.max() + walk)


def bimodal(random, at):
    """Power: some rounds run 2 % slower for every contender, some samples 1 %."""
    slow_rounds = 1 + 0.02 * (random.random((at.shape[0], 1, 1)) < 0.4)
    return quiet(random, at) * slow_rounds * (1 + 0.01 * (random.random(at.shape) < 0.3))


CLOCKS = (quiet, noisy, drifting, bimodal)


def contest(clock, true_ratio, seed):
    """Interleaved rounds (A B, B A, ...) of two contenders whose true times differ by `true_ratio`."""
    random = np.random.default_rng(seed)
    place = np.tile(np.array([[0, 1], [1, 0]]), (ROUNDS // 2, 1))
    at = (np.arange(ROUNDS)[:, None, None] * 2 + place[..., None]) * PER_ROUND + np.arange(PER_ROUND)
    factor = clock(random, at.astype(float))
    return 100.0 * factor[:, 0] * true_ratio, 100.0 * factor[:, 1]


def said(clock, true_ratio, seed):
    baseline, candidate = (rounds.tolist() for rounds in contest(clock, true_ratio, seed))
    return compute_speedup("baseline", baseline, candidate, max(aa_noise(candidate), aa_noise(baseline))).word


@ALL_SEEDS
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_kernel_is_not_called_different_from_itself(clock, pairs):
    words = [said(clock, 1.0, seed) for seed in range(2 * pairs)]
    assert sum(w is not Word.SAME for w in words) <= 0.01 * len(words)


@ALL_SEEDS
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(("true_ratio", "expected"), [(1.03, Word.FASTER), (1 / 1.03, Word.SLOWER)])
def test_three_percent_are_found(clock, true_ratio, expected, pairs):
    words = [said(clock, true_ratio, seed) for seed in range(pairs)]
    assert sum(w is expected for w in words) >= 0.9 * len(words)
    assert set(words) <= {expected, Word.SAME}


@ALL_SEEDS
def test_the_interval_holds_the_true_ratio(pairs):
    held = 0
    for seed in range(pairs):
        found = bootstrap_ratio(*(rounds.tolist() for rounds in contest(noisy, 1.5, seed)))
        held += found.low <= 1.5 <= found.high
    assert held >= 0.9 * pairs


@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(1.0, 1e6), max_size=5), min_size=1, max_size=6), st.floats(0.1, 10.0))
def test_a_scaled_copy_has_its_scale_for_ratio(rounds, factor):
    if not any(rounds):
        return
    found = bootstrap_ratio([[s * factor for s in r] for r in rounds], rounds)
    assert found.value == pytest.approx(factor)
    assert found.low <= found.value <= found.high
    summary = summarize_timing("x", rounds, method="events")
    samples = [s for r in rounds for s in r]
    assert summary.median_us == pytest.approx(statistics.median(samples))
    assert summary.p10_us <= summary.median_us <= summary.p90_us
    assert summary.n == len(samples)


def test_the_same_samples_always_give_the_same_word():
    assert bootstrap_ratio([[1.0, 1.1], [1.2]], [[1.0], [0.9, 1.0]]) == bootstrap_ratio(
        [[1.0, 1.1], [1.2]], [[1.0], [0.9, 1.0]]
    )


def test_the_word_needs_the_whole_interval_beyond_the_noise():
    assert decide_word(Ratio(1.05, 1.021, 1.08), 0.02) is Word.FASTER
    assert decide_word(Ratio(1.05, 1.019, 1.08), 0.02) is Word.SAME
    assert decide_word(Ratio(0.95, 0.93, 0.975), 0.02) is Word.SLOWER
    assert decide_word(Ratio(0.95, 0.93, 0.985), 0.02) is Word.SAME


def test_noise_has_a_floor_and_grows_with_the_scatter():
    assert aa_noise([[100.0] * 4] * 6) == NOISE_FLOOR
    loud = [[100.0 + 5 * ((7 * i + 3 * k) % 11 - 5) for k in range(4)] for i in range(6)]
    assert aa_noise(loud) > NOISE_FLOOR
    assert aa_noise([[100.0]]) == 1.0


def test_a_second_measurement_must_agree_within_two_percent_or_the_noise():
    assert not disagree(100.0, 101.9, 0.005)
    assert disagree(100.0, 102.1, 0.005)
    assert not disagree(100.0, 104.0, 0.05)


def test_fast_p_and_geometric_mean():
    assert fast_p({"a": 2.0, "b": 0.9, "c": None, "d": 1.2}, 1.0) == 0.5
    assert geometric_mean([2.0, 0.5, 8.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="above zero"):
        geometric_mean([])


def test_what_cannot_be_said_is_an_error():
    with pytest.raises(ValueError, match="no sample"):
        summarize_timing("x", [[], []], method="events")
    with pytest.raises(ValueError, match="same number"):
        bootstrap_ratio([[1.0]], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="both sides"):
        bootstrap_ratio([[1.0], []], [[], [1.0]])
