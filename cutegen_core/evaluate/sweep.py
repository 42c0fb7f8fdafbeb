"""Tune: find the best values of a kernel's declared parameters; needs no language model.

1. List the points, without those that cannot run, the most promising first.               (`tuning.points`)
2. Compile them in the background, several at a time, while the first are already timed.   (`tuning.builds`)
3. With a GPU: time all points side by side, the faster half again for longer, and so on.  (`tuning.halving`, `heats`)
   Those that are left take every stage once, timed in turns with the defaults.
4. Without a GPU: order the points by a model of their launches, which is not a time.      (`tuning.static_model`)
   A few that it prefers to the defaults take every stage, until one passes.
5. Choose: where times are known only a point that is FASTER than the defaults, and SLOWER on no workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median

from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.preparing import CompiledPoint
from cutegen_core.evaluate.stages.watch import StageFailure, Watch
from cutegen_core.evaluate.timing.contest import RaceResult
from cutegen_core.evaluate.timing.measured import find_slow
from cutegen_core.evaluate.timing.overall import regressed
from cutegen_core.evaluate.timing.statistics import geometric_mean
from cutegen_core.evaluate.tuning.builds import Builds
from cutegen_core.evaluate.tuning.halving import FULL_TURNS, Halving, Round, halve, most_rounds
from cutegen_core.evaluate.tuning.heats import Heats, NotTimedError
from cutegen_core.evaluate.tuning.points import Points, compiled_cost, find_points, with_params
from cutegen_core.evaluate.tuning.table import BY_MODEL, BY_TIME, SweepRow, SweepTable, describe, point_words
from cutegen_core.evaluate.variant import StopOnlyWatch, summarize_resources, summarize_trial
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.candidate import Candidate, content_key
from cutegen_core.records.performance import Word
from cutegen_core.records.trial import Status

__all__ = ["SweepRow", "SweepTable", "describe", "sweep", "with_params"]

MOST_TIMED, MOST_MODELLED = 256, 12
"""Points that are compiled, with and without a GPU."""

SURVIVORS, MOST_TESTED, MOST_TESTED_BY_MODEL = 3, 8, 4
BETTER_BY_MODEL = 0.99
"""Cost, in costs of the defaults, from which on the model prefers a point."""


def sweep(evaluator: CandidateEvaluator, base: Candidate, seed: int, watch: Watch) -> tuple[SweepTable, str]:
    """Find the best point; return the table, and the kernel file with its values as defaults.

    Raises:
        StoppedError: the user stopped it; times that were measured are kept.
    """
    kernel = parse(base.source)
    points = find_points(kernel, evaluator, MOST_TIMED if evaluator.can_race else MOST_MODELLED)
    with Builds(evaluator, points.kept, watch) as builds:
        made = _Sweep(evaluator, base, points, builds, seed, watch)
        made.test(0)
        table = made.by_time() if evaluator.can_race and len(points.kept) > 1 else made.by_model()
    return table, with_params(kernel, table.rows[table.chosen].params)


@dataclass
class _Sweep:
    """A sweep in progress; a point is known by its position in `points.kept`, the defaults are 0."""

    evaluator: CandidateEvaluator
    base: Candidate
    points: Points
    builds: Builds
    seed: int
    watch: Watch
    tested: dict[int, SweepRow] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)

    def test(self, index: int) -> bool:
        """Take a point through every stage, beside the defaults; return whether it passed."""
        params, source = self.points.kept[index].params, self.points.kept[index].source
        self.watch.say(f"test of {point_words(params) or 'the kernel'}")
        candidate = Candidate(source, self.base.author, self.base.key if index else self.base.parent)
        beside = self.base if index and self._passed(0) else None
        watch = StopOnlyWatch(self.watch)
        trial = self.evaluator.evaluate(candidate, seed=self.seed, watch=watch, best=beside, rough=True)
        self.tested[index] = SweepRow(params, **asdict(summarize_trial(trial)))
        return trial.passed

    # ---- with a GPU

    def by_time(self) -> SweepTable:
        """Halve by measured time, and test what is left; where nothing can be timed, go by the model."""
        anchor = next((i for i, _ in enumerate(self.points.kept) if self._compiled(i)), 0)
        heats = Heats(self._run_heat, anchor)
        try:
            found = halve(self._worth_timing(), heats.measure, lambda now: self._tell(now, heats))
        except NotTimedError as error:
            return self.by_model(f"{BY_MODEL}, since {error}")
        self._test_in_order(found)
        anchor_us = median(heats.anchor_us)
        path = {p: tuple(anchor_us * each.ratio for each in estimates) for p, estimates in found.path.items()}
        self.reasons |= {p: f"slower: left out after round {len(path[p])}" for p in path} | heats.lost
        order = [*found.ranking, *(p for p in self._positions() if p not in path)]
        workloads = max(1, len(self.points.kept[anchor].workloads))
        table = self._table(order, path, self._fastest(), BY_TIME)
        return replace(table, turns=heats.turns, full_turns=FULL_TURNS * workloads * len(self.points.kept))

    def _worth_timing(self) -> list[int]:
        """Return the points without those that were clearly slow when this device timed them before."""
        keys = [content_key(point.source) for point in self.points.kept]
        slow = find_slow(keys, self.evaluator.measured.load() if self.evaluator.measured else {})
        self.reasons |= {i: f"took {slow[key]:.4g} µs in an earlier sweep" for i, key in enumerate(keys) if key in slow}
        return [i for i, key in enumerate(keys) if key not in slow]

    def _run_heat(self, heat: Sequence[int], turns: int) -> Sequence[RaceResult]:
        """Time points as soon as they are compiled, on fresh values; those that the compiler refused are lost."""
        built = {i: self.builds.of(i) for i in heat}
        ready = {str(i): point for i, point in built.items() if isinstance(point, CompiledPoint)}
        lost = {str(i): point.message for i, point in built.items() if isinstance(point, StageFailure)}
        self.seed += 1
        if not ready:
            raise NotTimedError("none of them compiles")
        results = self.evaluator.race(ready, turns, seed=self.seed, watch=self.watch)
        self._remember(results)
        return [replace(result, lost={**lost, **result.lost}) for result in results]

    def _remember(self, results: Sequence[RaceResult]) -> None:
        everywhere = set.intersection(*(set(result.samples_us) for result in results))
        means = {name: geometric_mean([median(r.samples_us[name]) for r in results]) for name in everywhere}
        if self.evaluator.measured:
            self.evaluator.measured.add({content_key(self.points.kept[int(n)].source): us for n, us in means.items()})

    def _tell(self, now: Round, heats: Heats) -> None:
        best = f", best {now.leader.ratio * median(heats.anchor_us):.4g} µs" if now.leader else ""
        total = len(self.points.kept)
        self.watch.say(f"round {now.number} of {most_rounds(total)}: {len(now.points)} of {total} points{best}")

    def _test_in_order(self, found: Halving) -> None:
        """Test what is left, up to the defaults; then go down the ranking until one passes."""
        ahead = found.ranking[: found.ranking.index(0)] if self._passed(0) and 0 in found.ranking else found.ranking
        untested = [index for index in ahead if index != 0]
        for number, index in enumerate(untested[:MOST_TESTED]):
            survives = index in found.left and number < SURVIVORS
            if not survives and any(row.status is Status.PASSED for i, row in self.tested.items() if i):
                return
            self.test(index)

    def _fastest(self) -> int:
        """Return the fastest tested point that beats the defaults; the defaults where none does."""
        own = self.tested[0].latency_ms
        rows = {i: row for i, row in self.tested.items() if row.latency_ms is not None}
        better = [
            i for i, row in rows.items() if own is None or (row.word is Word.FASTER and not regressed(row.shapes))
        ]
        return min(better, key=lambda i: rows[i].latency_ms or 0.0, default=0)

    # ---- without one

    def by_model(self, decided_by: str = BY_MODEL) -> SweepTable:
        """Test what the model prefers to the defaults, in its order, until one passes."""
        costs = self._costs()
        order = sorted(costs, key=lambda i: (costs[i], i))
        preferred = [i for i in order if i and not (self._passed(0) and costs[i] > BETTER_BY_MODEL)]
        chosen = next((i for i in preferred[:MOST_TESTED_BY_MODEL] if self.test(i)), 0)
        self.reasons |= {i: "no better than the defaults by the model" for i in order}
        self.reasons |= {i: "behind others by the model" for i in preferred}
        return self._table([*order, *(i for i in self._positions() if i not in costs)], {}, chosen, decided_by)

    def _costs(self) -> Mapping[int, float]:
        """Return the cost of each compiled point, in costs of the defaults where these compile."""
        compiled = {
            i: built for i in self._positions() if (built := self._compiled(i)) and self.points.kept[i].workloads
        }
        kept, evaluator = self.points.kept, self.evaluator
        costs = {i: compiled_cost(kept[i], built.resources.kernels, evaluator) for i, built in compiled.items()}
        return {i: each / costs.get(0, 1.0) for i, each in costs.items()}

    # ---- both

    def _table(
        self, order: Iterable[int], path: Mapping[int, tuple[float, ...]], chosen: int, decided_by: str
    ) -> SweepTable:
        positions = [0, *(index for index in order if index)]
        costs = self._costs()
        rows = tuple(replace(self._row(i), raced_us=path.get(i, ()), cost=costs.get(i)) for i in positions)
        points = self.points
        return SweepTable(rows, positions.index(chosen), points.left_out, decided_by, points.pruned, points.pruned_why)

    def _row(self, index: int) -> SweepRow:
        params, built = self.points.kept[index].params, self.builds.of(index)
        if index in self.tested:
            return self.tested[index]
        if isinstance(built, StageFailure):
            return SweepRow(params, built.status, built.message)
        return SweepRow(params, None, self.reasons.get(index, ""), *summarize_resources(built.resources))

    def _positions(self) -> range:
        return range(len(self.points.kept))

    def _compiled(self, index: int) -> CompiledPoint | None:
        built = self.builds.of(index)
        return built if isinstance(built, CompiledPoint) else None

    def _passed(self, index: int) -> bool:
        return index in self.tested and self.tested[index].status is Status.PASSED
