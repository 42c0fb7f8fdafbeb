"""Read what a bench came to: a line per problem from its session, and the figures of the whole set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from cutegen_core.evaluate.evidence.speed import share
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.evaluate.timing.statistics import fast_p, geometric_mean
from cutegen_core.kernel.cute_features import cute_features
from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchRow
from cutegen_core.records.errors import StoreError
from cutegen_core.records.performance import COMPILED, EAGER, SAME_AS_EAGER, WorkloadPerformance
from cutegen_core.records.trial import Status
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.speed import performance_of

VENDOR = "vendor call"
BASELINES = (EAGER, COMPILED, VENDOR)
FAST_P = (1.0, 1.5, 2.0)
_CHANGED = 0.03


class BenchOutcome(StrEnum):
    """What a problem came to."""

    PASSED = "passed"
    NO_KERNEL = "no kernel passed"
    NO_PROPOSAL = "nobody proposed a kernel"
    NOT_LOADED = "did not load"
    LOST = "its session is gone"


class BenchLine(NamedTuple):
    """One problem.

    Attributes:
        path: of its file, or the name of a built-in problem.
        why: why it has no kernel that passed, "" if it has.
        latency_us: of the best kernel, over all benchmark workloads; None where nothing was timed.
        share: of the bound that is shown for it, 0 to 1; None where nothing was counted.
        speedups: baseline -> its time / the kernel's; those that could be timed.
        features: CuTe feature -> uses in the best kernel.
    """

    problem: str
    path: str
    session: str
    outcome: BenchOutcome
    why: str
    idea: str
    seconds: float
    steps: int
    latency_us: float | None
    share: float | None
    speedups: Mapping[str, float]
    features: Mapping[str, int]


class BenchFigures(NamedTuple):
    """Figures of a set.

    Attributes:
        coverage: share of the problems with a kernel that passed, 0 to 1.
        mean_speedup: baseline -> geometric mean over the problems timed against it.
        timed: baseline -> number of those.
        fast: baseline -> for each p of `FAST_P` the share of ALL problems with a kernel more than p times as fast.
        mean_share: geometric mean of the shares of the bound, None where none was counted.
        features: CuTe feature -> number of problems whose best kernel uses it.
    """

    problems: int
    passed: int
    coverage: float
    mean_speedup: Mapping[str, float]
    timed: Mapping[str, int]
    fast: Mapping[str, tuple[float, ...]]
    mean_share: float | None
    features: Mapping[str, int]
    seconds: float


def bench_lines(store: Store, job: str, after: int = 0) -> tuple[BenchLine, ...]:
    """Return the problems that a bench has finished, but for the first `after`, in the order in which they ended."""
    return tuple(_line(store, as_json.load(BenchRow, text)) for text in jobs.reports(store, job, after))


def bench_figures(lines: Sequence[BenchLine]) -> BenchFigures | None:
    """Return the figures; None while no problem is done."""
    if not lines:
        return None
    passed = [line for line in lines if line.outcome is BenchOutcome.PASSED]
    ratios = {name: [line.speedups[name] for line in passed if name in line.speedups] for name in BASELINES}
    ratios = {name: found for name, found in ratios.items() if found}
    shares = [line.share for line in passed if line.share]
    return BenchFigures(
        len(lines),
        len(passed),
        len(passed) / len(lines),
        {name: geometric_mean(found) for name, found in ratios.items()},
        {name: len(found) for name, found in ratios.items()},
        {name: tuple(fast_p({x.problem: x.speedups.get(name) for x in lines}, p) for p in FAST_P) for name in ratios},
        geometric_mean(shares) if shares else None,
        Counter(feature for line in passed for feature in line.features),
        sum(line.seconds for line in lines),
    )


def bench_words(lines: Sequence[BenchLine]) -> Iterator[str]:
    """Yield the figures as lines for a terminal."""
    figures = bench_figures(lines)
    if figures is None:
        return
    yield f"{figures.passed} of {figures.problems} passed ({100 * figures.coverage:.0f} %), {figures.seconds:.0f} s"
    for name, mean in figures.mean_speedup.items():
        fast = ", ".join(f"fast_{p:g} {value:.2f}" for p, value in zip(FAST_P, figures.fast[name], strict=True))
        yield f"vs {name}: geometric mean {mean:.2f}x over {figures.timed[name]} problems, {fast}"
    if figures.mean_share is not None:
        yield f"share of the bound: geometric mean {100 * figures.mean_share:.0f} %"
    if figures.features:
        used = sorted(figures.features.items(), key=lambda item: -item[1])
        yield "CuTe in the best kernels: " + ", ".join(f"{name} {count}" for name, count in used)


class BenchChange(NamedTuple):
    """A problem that differs between two benches; `ratio` is of the times, None where the outcome changed."""

    problem: str
    before: str
    after: str
    ratio: float | None = None


def compare_benches(earlier: Sequence[BenchLine], later: Sequence[BenchLine]) -> list[BenchChange]:
    """Return the problems of both whose outcome changed, or whose time changed by more than 3 %."""
    before = {line.problem: line for line in earlier}
    pairs = [(before[line.problem], line) for line in later if line.problem in before]
    changed = [BenchChange(b.problem, a.outcome, b.outcome) for a, b in pairs if a.outcome is not b.outcome]
    for a, b in pairs:
        if a.latency_us and b.latency_us and abs(a.latency_us / b.latency_us - 1.0) > _CHANGED:
            then, now = (f"{us:.1f} µs" for us in (a.latency_us, b.latency_us))
            changed.append(BenchChange(b.problem, then, now, a.latency_us / b.latency_us))
    return changed


def _line(store: Store, row: BenchRow) -> BenchLine:
    if not row.session:
        return _without(row, BenchOutcome.NOT_LOADED, row.why)
    try:
        state = state_of(store, row.session)
    except StoreError as error:
        return _without(row, BenchOutcome.LOST, str(error))
    best = state.best_step
    if best is None or best.candidate is None or best.status is not Status.PASSED:
        tried = any(step.tried for step in state.steps)
        return _without(
            row, BenchOutcome.NO_KERNEL if tried else BenchOutcome.NO_PROPOSAL, _reason(state), len(state.steps)
        )
    timed = overall(performance_of(store, best))
    reached = share(timed) if timed else None
    return BenchLine(
        row.title, row.problem, row.session, BenchOutcome.PASSED, "", best.idea, row.seconds, len(state.steps),
        timed.candidate.median_us if timed else None, reached.fraction if reached else None,
        _speedups(timed) if timed else {},
        cute_features(store.text(best.candidate)),
    )  # fmt: skip


def _speedups(timed: WorkloadPerformance) -> Mapping[str, float]:
    """Return baseline -> ratio; where eager is one call of a vendor's library, that call's too."""
    found = {s.baseline: s.ratio for s in timed.speedups if s.baseline in (EAGER, COMPILED)}
    is_vendor = any(u.contender not in (EAGER, COMPILED) and u.reason == SAME_AS_EAGER for u in timed.untimed)
    return {**found, VENDOR: found[EAGER]} if is_vendor and EAGER in found else found


def _reason(state: State) -> str:
    """Return why no kernel passed: what the last step that was tested came to, else why the session ended."""
    last = next((step for step in reversed(state.steps) if step.tried), None)
    return f"{last.status}: {last.idea}" if last else state.reason


def _without(row: BenchRow, outcome: BenchOutcome, why: str, steps: int = 0) -> BenchLine:
    return BenchLine(row.title, row.problem, row.session, outcome, why, "", row.seconds, steps, None, None, {}, {})
