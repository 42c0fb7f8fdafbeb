"""Evaluate samples: medians, intervals, noise, and the word (FASTER, SAME, SLOWER) that follows from them.

Samples come in rounds. In a round every contender is measured for a few samples, one contender after the other, so that
drift (clocks, heat) affects all alike. Rounds are therefore resampled as wholes, the same rounds for both sides of a
ratio (block bootstrap, Künsch 1989), and samples are resampled again within a round.

Noise is the difference that a contender shows when compared with itself: its rounds are split into halves in many ways.
Noise is the 95 % quantile of the relative differences between the halves' medians, divided by sqrt(2) because a half
has half the samples. Two processes that run the same kernel differ slightly more, which no single process can see:
hence a floor.

The functions that compute import numpy themselves: a command that times nothing need not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cutegen_core.records.performance import BEST, CANDIDATE, EXISTING, Speedup, Timing, Word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rounds = Sequence[Sequence[float]]
"""Samples in µs, round by round; a round may be shorter than others, or empty, where samples were dropped."""

NOISE_FLOOR = 0.005
"""Relative: what two processes differ by on an H200, `benchmarks/results/gpu_timing.json`."""

_RESAMPLES = 600
_SPLITS = 200
_Array: TypeAlias = "NDArray[Any]"


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians with its 95 % interval."""

    value: float
    low: float
    high: float


def summarize_timing(
    contender: str, rounds: Rounds, *, method: str, dropped: int = 0, floor: float = NOISE_FLOOR
) -> Timing:
    """Summarise one contender.

    Raises:
        ValueError: no sample is left.
    """
    import numpy as np

    samples = tuple(float(s) for r in rounds for s in r)
    if not samples:
        raise ValueError(f"no sample of {contender} is left")
    p10, median, p90 = np.percentile(samples, (10, 50, 90))
    noise = aa_noise(rounds, floor=floor)
    return Timing(contender, float(median), float(p10), float(p90), noise, len(samples), dropped, method, samples)


def aa_noise(rounds: Rounds, *, floor: float = NOISE_FLOOR, seed: int = 0) -> float:
    """Return the relative difference that comparing these samples with themselves reaches in 95 of 100 cases."""
    import numpy as np

    table = _table([r for r in rounds if len(r)])
    if table.shape[0] < 2:
        table = table.reshape(-1, 1)
    count = table.shape[0]
    if count < 2:
        return 1.0  # a single sample gives no estimate
    random = np.random.default_rng(seed)
    shuffled = np.argsort(random.random((_SPLITS, count)), axis=1)
    half = count // 2
    first, second = (_medians(table[shuffled[:, part]]) for part in (slice(0, half), slice(count - half, count)))
    return max(floor, float(np.quantile(np.abs(first / second - 1.0), 0.95)) / math.sqrt(2.0))


def kernels_noise(timings: Sequence[Timing]) -> float:
    """Return the noise for comparing kernels: the largest one of those that were timed, baselines left out."""
    return max(timing.noise for timing in timings if timing.contender in (CANDIDATE, BEST, EXISTING))


def bootstrap_ratio(numerator: Rounds, denominator: Rounds, *, seed: int = 0) -> Ratio:
    """Return median(numerator) / median(denominator); round i of both was measured side by side.

    Raises:
        ValueError: the numbers of rounds differ, or a side has no samples.
    """
    import numpy as np

    if len(numerator) != len(denominator):
        raise ValueError("both sides need the same number of rounds")
    both = [(n, d) for n, d in zip(numerator, denominator, strict=True) if len(n) and len(d)]
    if not both:
        raise ValueError("no round has samples of both sides")
    above, below = (_table([pair[side] for pair in both]) for side in (0, 1))
    random = np.random.default_rng(seed)
    picked = random.integers(len(both), size=(_RESAMPLES, len(both)))
    ratios = _resampled(above, picked, random) / _resampled(below, picked, random)
    low, high = np.quantile(ratios, (0.025, 0.975))
    value = float(_medians(above[None])[0] / _medians(below[None])[0])
    return Ratio(value, min(value, float(low)), max(value, float(high)))


def decide_word(found: Ratio, noise: float) -> Word:
    """Return FASTER or SLOWER only if the whole interval is further from 1 than the noise."""
    if found.low > 1.0 + noise:
        return Word.FASTER
    return Word.SLOWER if found.high < 1.0 / (1.0 + noise) else Word.SAME


def compute_speedup(baseline: str, rounds: Rounds, candidate: Rounds, noise: float) -> Speedup:
    """Compare the candidate with one baseline; the seed is fixed, so equal samples always give the same word."""
    found = bootstrap_ratio(rounds, candidate)
    return Speedup(baseline, found.value, found.low, found.high, decide_word(found, noise))


def disagree(first_us: float, again_us: float, noise: float, tolerance: float = 0.02) -> bool:
    """Return whether a second measurement differs by more than both `tolerance` and the noise (UNSTABLE)."""
    return abs(again_us / first_us - 1.0) > max(tolerance, noise)


def fast_p(speedups: Mapping[str, float | None], p: float) -> float:
    """Return the share of problems with a right kernel more than `p` times as fast as the baseline.

    Source: KernelBench, arXiv 2502.10517.

    Args:
        speedups: problem -> speedup, None if no kernel was right.
    """
    if not speedups:
        raise ValueError("fast_p needs at least one problem")
    return sum(s is not None and s > p for s in speedups.values()) / len(speedups)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean.

    Raises:
        ValueError: there are no values, or one is not above zero.
    """
    if not values or min(values) <= 0.0:
        raise ValueError("a geometric mean needs numbers above zero")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _table(rounds: Rounds) -> _Array:
    """Return one row per round, padded with NaN."""
    import numpy as np

    table = np.full((len(rounds), max((len(r) for r in rounds), default=0)), np.nan)
    for row, samples in zip(table, rounds, strict=True):
        row[: len(samples)] = samples
    return table


def _resampled(table: _Array, picked: _Array, random: np.random.Generator) -> _Array:
    """Return medians of resamples: the picked rounds, each with as many of its own samples as it has."""
    import numpy as np

    counts = (~np.isnan(table)).sum(axis=1)
    within = random.random((*picked.shape, table.shape[1]))
    position = (within * counts[picked][..., None]).astype(np.int64)
    values = table[picked[..., None], position]
    values[np.arange(table.shape[1]) >= counts[picked][..., None]] = np.nan
    return _medians(values)


def _medians(tables: _Array) -> _Array:
    import numpy as np

    flat = tables.reshape(tables.shape[0], -1)
    return np.asarray(np.nanmedian(flat, axis=1) if np.isnan(flat).any() else np.median(flat, axis=1))
