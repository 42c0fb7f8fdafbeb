"""Records of a sweep: the table of its points, and what came of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import counted

BY_TIME = "measured latency: all points in rounds side by side, the fastest again in turns with the defaults"
BY_MODEL = "a model of the launches and by correctness; not ranked by time"


@dataclass(frozen=True)
class SweepRow:
    """Result of one point, with the numbers of `variant.VariantResult`; `word` compares it with the defaults.

    Attributes:
        status: None where it was not taken through the stages; `message` then says why.
        raced_us: its median time after each round in which it was timed; of several workloads the geometric mean.
        cost: by the static model, in costs of the defaults; None where the compiler refused it.
    """

    params: Mapping[str, int | float]
    status: Status | None
    message: str = ""
    registers: int = 0
    spill_bytes: int = 0
    occupancy: float = 0.0
    latency_ms: float | None = None
    word: Word | None = None
    shapes: tuple[ShapeTime, ...] = ()
    raced_us: tuple[float, ...] = ()
    cost: float | None = None


@dataclass(frozen=True)
class SweepTable:
    """Results of the points: the defaults first, then in the order of the ranking.

    Attributes:
        left_out: number of choices that may run and were not compiled.
        decided_by: the criterion of the choice.
        pruned: number of choices that cannot run, found before compiling; `pruned_why` is the first one's reason.
        turns: turns that were timed; `full_turns` is what timing every point as long as a candidate would take.
    """

    rows: tuple[SweepRow, ...]
    chosen: int
    left_out: int
    decided_by: str = BY_MODEL
    pruned: int = 0
    pruned_why: str = ""
    turns: int = 0
    full_turns: int = 0

    def say_left_out(self) -> Iterator[str]:
        """Yield how many choices were not compiled, and why."""
        if self.pruned:
            points = counted(self.pruned, "point")
            yield f"{points} left out before compiling, since they cannot run here, such as: {self.pruned_why}"
        if self.left_out:
            yield f"{counted(self.left_out, 'further point')} not tried."


def describe(table: SweepTable) -> str:
    """Return the result as an idea line."""
    choice = point_words(table.rows[table.chosen].params) or "nothing declared"
    tested = sum(row.status is not None for row in table.rows)
    passed = sum(row.status is Status.PASSED for row in table.rows)
    timed = f"{sum(bool(row.raced_us) for row in table.rows)} timed, " if table.turns else ""
    ranked = "" if table.turns else ", not ranked by time"
    return f"tune: {choice} ({timed}{passed} of {tested} tested points passed{ranked})"


def point_words(params: Mapping[str, int | float]) -> str:
    """Return a point in words, "BLOCK=256, ITEMS=4"."""
    return ", ".join(f"{name}={value}" for name, value in params.items())
