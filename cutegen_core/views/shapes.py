"""Show every shape by step: times with their share of the floor on a GPU, verdicts per workload on the emulator.

A shape is a benchmark workload. The floor is the time of work that no algorithm can avoid (the compulsory bound).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.records.candidate import content_key
from cutegen_core.records.performance import BEST, COMPULSORY, EXISTING, Performance, Word, WorkloadPerformance
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.trial import Status, Trial
from cutegen_core.trajectory.read import trial_of
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store


class ShapeCell(NamedTuple):
    """A kernel at one shape, or over all of them.

    Attributes:
        floor_us, bound_by: None and "" without measured peaks.
        over_existing: the existing kernel's time / its own, None where they were not timed in turns.
        against_best: the comparison with the best kernel of that moment, None without one.
    """

    us: float
    floor_us: float | None = None
    bound_by: str = ""
    over_existing: float | None = None
    against_best: Word | None = None

    @property
    def share(self) -> float | None:
        """Share of the floor's speed that is reached, 0 to 1."""
        return self.floor_us / self.us if self.floor_us and self.us else None


class ShapeColumn(NamedTuple):
    """A step, or the existing kernel where no step carries it (`step` 0).

    Attributes:
        cells: by shape; empty where nothing was timed.
        mean: over all shapes, None for a single one.
        verdicts: by workload, in the order they ran.
    """

    step: int
    idea: str
    is_existing: bool
    is_best: bool
    status: Status | None
    cells: Mapping[str, ShapeCell]
    mean: ShapeCell | None
    verdicts: Mapping[str, Status]

    @property
    def regressed(self) -> tuple[str, ...]:
        """The shapes at which it was slower than the best kernel of that moment."""
        return tuple(name for name, cell in self.cells.items() if cell.against_best is Word.SLOWER)


class ShapeTable(NamedTuple):
    """Shapes by steps; without times, `rows` are the workloads that were tested."""

    timed: bool
    rows: tuple[str, ...]
    columns: tuple[ShapeColumn, ...]

    @property
    def several(self) -> bool:
        return len(self.rows) > 1


def shape_table(store: Store, state: State, problem: Problem) -> ShapeTable:
    """Return the table of all steps that were tried."""
    existing, best = content_key(problem.existing) if problem.existing else "", state.best_step
    tried = [(step, _trial(store, step)) for step in state.steps if step.verdict]
    columns = [_column(step, trial, existing, best) for step, trial in tried if trial]
    if existing and not any(column.is_existing for column in columns):
        columns = [*_existing_beside([trial for _, trial in tried if trial]), *columns]
    timed = any(column.cells for column in columns)
    judged = store.record(Problem, state.problem)
    known = judged.with_role(WorkloadRole.BENCHMARK) if timed else judged.workloads
    found = (column.cells if timed else column.verdicts for column in columns)
    return ShapeTable(timed, _ordered([w.name for w in known], found), tuple(columns))


def shape_cells(performance: Performance | None) -> Mapping[str, ShapeCell]:
    """Return the figures of every timed workload, by its name."""
    return {w.workload: _cell(w) for w in performance.workloads} if performance else {}


def _ordered(known: Sequence[str], found: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the names that occur: the problem's own in its order, then the others."""
    names = dict.fromkeys(name for one in found for name in one)
    return (*(name for name in known if name in names), *(name for name in names if name not in known))


def _trial(store: Store, step: Step) -> Trial | None:
    return trial_of(store, step.verdict.trial) if step.verdict and step.verdict.trial else None


def _column(step: Step, trial: Trial, existing: str, best: Step | None) -> ShapeColumn:
    performance = trial.performance if trial.passed else None
    several = performance is not None and len(performance.workloads) > 1
    mean = overall(performance) if several else None
    return ShapeColumn(
        step.number, step.idea, step.candidate == existing, step is best, step.status, shape_cells(performance),
        _cell(mean) if mean else None, _verdicts(trial),
    )  # fmt: skip


def _cell(workload: WorkloadPerformance) -> ShapeCell:
    bound, beside, best = workload.bound(COMPULSORY), workload.speedup(EXISTING), workload.speedup(BEST)
    return ShapeCell(
        workload.candidate.median_us,
        bound.us if bound else None,
        bound.by if bound else "",
        beside.ratio if beside else None,
        best.word if best else None,
    )


def _existing_beside(trials: Sequence[Trial]) -> list[ShapeColumn]:
    """Return the existing kernel as it was timed beside the last kernel, none if it was not."""
    measured = [trial.performance for trial in trials if trial.passed and trial.performance]
    for performance in reversed(measured):
        workloads = [alone for w in performance.workloads if (alone := _as_candidate(w))]
        if len(workloads) == len(performance.workloads):
            whole = Performance(tuple(workloads))
            mean = overall(whole) if len(workloads) > 1 else None
            cells = shape_cells(whole)
            return [ShapeColumn(0, "the existing kernel", True, False, None, cells, _cell(mean) if mean else None, {})]
    return []


def _as_candidate(workload: WorkloadPerformance) -> WorkloadPerformance | None:
    """Return the workload with the existing kernel as what is timed; None where it was not timed."""
    timing = next((t for t in workload.timings if t.contender == EXISTING), None)
    return replace(workload, timings=(timing,), speedups=()) if timing else None


def _verdicts(trial: Trial) -> Mapping[str, Status]:
    """Return the worst verdict on every workload that ran."""
    found: dict[str, Status] = {}
    for verdict in trial.correctness.verdicts if trial.correctness else ():
        if found.get(verdict.workload, Status.PASSED) is Status.PASSED:
            found[verdict.workload] = verdict.status
    return found
