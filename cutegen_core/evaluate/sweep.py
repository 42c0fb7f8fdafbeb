"""Tune: take every combination of a kernel's declared parameters through the stages; needs no model.

With a GPU, measured latency decides: each combination is timed in turns with the defaults, and only one that is FASTER
can replace them; of several benchmark workloads, it may be slower on none. Without a GPU, only correctness and
resources are known: the fewest spills, then the highest occupancy, then the fewest registers decide. The defaults win
ties; the table names the criterion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.timing.overall import regressed
from cutegen_core.evaluate.variant import StopOnlyWatch, summarize_trial
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.records.candidate import Candidate
from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.trial import Status

MAX_COMBINATIONS = 16
_UNTIMED = "correctness and resources only: nothing is timed without a GPU"
_TIMED = "measured latency, each timed in turns with the defaults"


@dataclass(frozen=True)
class SweepRow:
    """Result of one combination, with the numbers of `variant.VariantResult`; `word` compares it with the defaults."""

    params: Mapping[str, int | float]
    status: Status
    message: str = ""
    registers: int = 0
    spill_bytes: int = 0
    occupancy: float = 0.0
    latency_ms: float | None = None
    word: Word | None = None
    shapes: tuple[ShapeTime, ...] = ()


@dataclass(frozen=True)
class SweepTable:
    """Results of all combinations, the defaults first.

    Attributes:
        left_out: number of combinations beyond the limit.
        decided_by: the criterion of the choice.
    """

    rows: tuple[SweepRow, ...]
    chosen: int
    left_out: int
    decided_by: str = _UNTIMED


def sweep(evaluator: CandidateEvaluator, base: Candidate, seed: int, watch: Watch) -> tuple[SweepTable, str]:
    """Try every combination; return the table and the source with the chosen parameters as defaults.

    Raises:
        StoppedError: the user stopped it.
    """
    kernel = parse(base.source)
    default = kernel.defaults()
    combinations = [c for c in kernel.combinations(evaluator.device) if c != default]
    tried = [default, *islice(combinations, MAX_COMBINATIONS - 1)]
    rows: list[SweepRow] = []
    for number, params in enumerate(tried, 1):
        watch.say(f"combination {number} of {len(tried)}: {_words(params)}")
        candidate = Candidate(with_params(kernel, params), base.author, base.key)
        defaults = base if number > 1 and rows[0].status is Status.PASSED else None
        trial = evaluator.evaluate(candidate, seed=seed, watch=StopOnlyWatch(watch), best=defaults, rough=True)
        rows.append(SweepRow(params, **asdict(summarize_trial(trial))))
    chosen, timed = _choose(rows), any(row.latency_ms is not None for row in rows)
    left_out = len(combinations) + 1 - len(tried)
    table = SweepTable(tuple(rows), chosen, left_out, _TIMED if timed else _UNTIMED)
    return table, with_params(kernel, rows[chosen].params)


def describe(table: SweepTable) -> str:
    """Return the result as an idea line."""
    passed = sum(row.status is Status.PASSED for row in table.rows)
    choice = _words(table.rows[table.chosen].params) or "nothing declared"
    return f"tune: {choice} ({passed} of {len(table.rows)} combinations passed)"


def with_params(kernel: KernelFile, params: Mapping[str, int | float]) -> str:
    """Return the kernel file with these values as defaults."""
    text = kernel.text
    for name, value in params.items():
        if kernel.defaults()[name] != value:
            text = parse(text).with_param(name, value)
    return text


def _choose(rows: Sequence[SweepRow]) -> int:
    """Return the position of the best row; the defaults come first and win ties."""
    own = rows[0].latency_ms
    if own is None and all(row.latency_ms is None for row in rows):
        return max(range(len(rows)), key=lambda i: (_merit(rows[i]), -i))
    right = [i for i, row in enumerate(rows) if row.latency_ms is not None]
    faster = [i for i in right if own is None or (rows[i].word is Word.FASTER and not regressed(rows[i].shapes))]
    return min(faster, key=lambda i: rows[i].latency_ms or 0.0, default=0)


def _merit(row: SweepRow) -> tuple[bool, int, float, int]:
    return (row.status is Status.PASSED, -row.spill_bytes, row.occupancy, -row.registers)


def _words(params: Mapping[str, int | float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items())
