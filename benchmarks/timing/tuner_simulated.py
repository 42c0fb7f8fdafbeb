"""The tuner's halving on landscapes whose best point is known: how far from it, and for how much timing?

    python -m benchmarks.timing.tuner_simulated [--seeds 200]

1. The code is the sweep's own: `tuning.halving` over `tuning.heats`. Only what a GPU would answer is drawn here.
2. A sample is the point's true time x log-normal noise (0.5 to 2 %), one in fifty is an outlier (up to 1.5 times); each
   process that runs a kernel differs by 0.3 %, and the clocks of a heat by 1 %.
3. Landscapes: five shapes as tuning meets them, and what `benchmarks.timing.tuner` recorded, where it was run.
A measurement is one contender's turn; timing every point in full takes twelve. Found is the fastest of the survivors,
which the sweep tests in turns with the defaults: here, too, by twelve turns, counted as measurements.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean, median

from benchmarks.conditions import RESULTS, write
from cutegen_core.evaluate.sweep import SURVIVORS
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.tuning.halving import FULL_TURNS, halve
from cutegen_core.evaluate.tuning.heats import Heats

SAMPLES_A_TURN = 5
OUTLIERS, PROCESS_NOISE, HEAT_DRIFT = 0.02, 0.003, 0.01
NOISES = (0.005, 0.01, 0.02)
LARGEST_REGRET, LARGEST_SHARE = 0.03 + 1e-9, 1 / 3


@dataclass
class SimulatedGpu:
    """Answers a heat as the timer does, from true times in µs."""

    true_us: Sequence[float]
    noise: float
    random: Random

    def run(self, points: Sequence[int], turns: int) -> Sequence[RaceResult]:
        drift = self.random.gauss(1.0, HEAT_DRIFT)
        return [RaceResult({str(p): self._samples(drift * self.true_us[p], turns) for p in points})]

    def _samples(self, us: float, turns: int) -> tuple[float, ...]:
        own = us * self.random.gauss(1.0, PROCESS_NOISE)
        return tuple(own * self._slip() for _ in range(turns * SAMPLES_A_TURN))

    def _slip(self) -> float:
        slip = math.exp(self.random.gauss(0.0, self.noise))
        return slip * self.random.uniform(1.05, 1.5) if self.random.random() < OUTLIERS else slip


@dataclass(frozen=True)
class Tuned:
    """Distance of the found point from the best one, and the turns of all points in full turns of all points."""

    regret: float
    share: float
    turns: int


def tune(true_us: Sequence[float], noise: float, seed: int) -> Tuned:
    """Find the best point as a sweep does; point 0 is the defaults."""
    gpu = SimulatedGpu(true_us, noise, Random(seed))
    heats = Heats(gpu.run, anchor=0)
    found = halve(range(len(true_us)), heats.measure)
    survivors = [point for point in found.ranking[: found.ranking.index(0)] if point in found.left][:SURVIVORS]
    taken = gpu.run([0, *survivors], FULL_TURNS)[0].samples_us if survivors else {}
    chosen = min(survivors, key=lambda p: median(taken[str(p)]), default=0)
    turns = heats.turns + FULL_TURNS * len(survivors)
    return Tuned(true_us[chosen] / min(true_us) - 1.0, turns / (FULL_TURNS * len(true_us)), heats.turns)


# ---- landscapes


def bowl(random: Random) -> list[float]:
    """Return times with a smooth optimum between extremes, two parameters: tiles of a product."""
    best = random.uniform(1, 4), random.uniform(0.5, 2.5)
    grid = itertools.product(range(6), range(4))
    return [100.0 * (1.0 + 0.05 * (x - best[0]) ** 2 + 0.08 * (y - best[1]) ** 2) for x, y in grid]


def stairs(random: Random) -> list[float]:
    """Occupancy steps and tails of waves: jumps of 5 to 40 %."""
    steps = [1.0 + 0.05 * random.randrange(9) for _ in range(9)]
    return [50.0 * step * tail for step in steps for tail in (1.0, 1.03, 1.12)]


def flat(random: Random) -> list[float]:
    """Return times of a memory-bound kernel: most points within 2 %, a few far slower."""
    return [
        30.0 * (random.uniform(1.0, 1.02) if random.random() < 0.75 else random.uniform(1.2, 2.0)) for _ in range(16)
    ]


def rugged(random: Random) -> list[float]:
    """Return times spread over a factor of two, without order among neighbours."""
    return [200.0 * math.exp(random.gauss(0.0, 0.25)) for _ in range(64)]


def needle(random: Random) -> list[float]:
    """Return times with one point 8 % faster than all others, which are within 1 %."""
    times = [10.0 * random.uniform(1.0, 1.01) for _ in range(40)]
    times[random.randrange(1, 40)] *= 0.92
    return times


def crowd(random: Random) -> list[float]:
    """Return times of as many points as a sweep compiles, a quarter of them within 5 % of the best."""
    return [80.0 * (1.0 + abs(random.gauss(0.0, 0.15))) for _ in range(96)]


LANDSCAPES: Mapping[str, Callable[[Random], list[float]]] = {
    "bowl": bowl, "stairs": stairs, "flat": flat, "rugged": rugged, "needle": needle, "crowd": crowd,
}  # fmt: skip


def recorded() -> Mapping[str, list[float]]:
    """Return the landscapes that were timed in full on a GPU, the defaults first."""
    path = RESULTS / "tuner_h200.json"
    kernels = json.loads(path.read_text())["kernels"] if path.exists() else {}
    return {f"{name} (recorded)": [row["us"] for row in each["points"] if row["us"]] for name, each in kernels.items()}


# ---- the table


def simulate(seeds: int) -> dict[str, dict[str, float]]:
    """Tune every landscape under every noise, with so many seeds each."""
    found: dict[str, dict[str, float]] = {}
    draws: dict[str, Callable[[Random], list[float]]] = dict(LANDSCAPES)
    draws |= {name: lambda _, kept=times: kept for name, times in recorded().items()}
    for (name, draw), noise in itertools.product(draws.items(), NOISES):
        tuned = [tune(draw(Random(seed)), noise, seed) for seed in range(seeds)]
        regrets = sorted(each.regret for each in tuned)
        found[f"{name}, noise {noise:.1%}"] = {
            "points": len(draw(Random(0))),
            "within": sum(regret <= LARGEST_REGRET for regret in regrets) / seeds,
            "regret_median": median(regrets),
            "regret_p99": regrets[min(seeds - 1, math.ceil(0.99 * seeds) - 1)],
            "regret_max": regrets[-1],
            "share_mean": mean(each.share for each in tuned),
            "share_max": max(each.share for each in tuned),
            "halving_share_max": max(each.turns for each in tuned) / (FULL_TURNS * len(draw(Random(0)))),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    seeds = parser.parse_args().seeds
    rows = simulate(seeds)
    print(f"{'landscape':28} points within 3 % regret p99    max turns, mean    max")
    for name, row in rows.items():
        print(
            f"{name:28} {row['points']:6} {row['within']:10.1%} {row['regret_p99']:10.2%} {row['regret_max']:6.1%} "
            f"{row['share_mean']:11.1%} {row['share_max']:6.1%}"
        )
    write("tuner_simulated", {"seeds": seeds, "samples_a_turn": SAMPLES_A_TURN, "rows": rows})


if __name__ == "__main__":
    main()
