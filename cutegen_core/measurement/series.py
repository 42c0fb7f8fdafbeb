"""Interleaved rounds of several contenders, and the record that comes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cutegen_core.gpu.nvml import Monitor
from cutegen_core.measurement import schedule, statistics
from cutegen_core.measurement.contenders import Contender, Dropped, Taken
from cutegen_core.measurement.schedule import Share
from cutegen_core.performance import Speedup, Timing, Untimed

FIRST_S = 150.0
"""Wall-clock limit of a contender's first round; torch.compile compiles in it."""


@dataclass
class Column:
    """One contender's samples; a round that was not taken or was dropped is empty.

    Attributes:
        dropped: samples taken while the clocks were throttled by heat.
    """

    contender: Contender
    rounds: list[tuple[float, ...]] = field(default_factory=list)
    method: str = ""
    dropped: int = 0

    def add(self, number: int, taken: Taken, throttled: bool) -> None:
        self.rounds += [()] * (number + 1 - len(self.rounds))
        self.method = taken.method
        if throttled:
            self.dropped += len(taken.us)
        else:
            self.rounds[number] = taken.us

    def timing(self) -> Timing:
        return statistics.timing(self.contender.name, self.rounds, method=self.method, dropped=self.dropped)


class Series:
    """Measures contenders side by side; the first is the candidate, whose failure ends it.

    Args:
        sets: the timed buffer sets.
        between: called between two rounds of contenders; raises what stops the measurement.
        after_candidate: called with the sets of each round of the candidate; raises Dropped when outputs are wrong.
    """

    def __init__(
        self,
        sets: Sequence[int],
        monitor: Monitor,
        between: Callable[[], None],
        after_candidate: Callable[[Sequence[int]], None],
    ) -> None:
        self._sets, self._monitor = sets, monitor
        self._between, self._after_candidate = between, after_candidate
        self.columns: list[Column] = []
        self.untimed: list[Untimed] = []

    def run(self, contenders: Sequence[Contender]) -> None:
        """All rounds. Dropped when the first contender fails; another's failure is noted in `untimed`."""
        typical = self._first_round(contenders)
        self.columns = [Column(c) for c in contenders if c.name in typical]
        count = schedule.rounds(typical[contenders[0].name])
        shares = {name: schedule.share(us, count, self._sets) for name, us in typical.items()}
        for number, name in schedule.turns(shares, count):
            self._between()
            column = next((c for c in self.columns if c.contender.name == name), None)
            if column is not None:
                self._take(column, number, shares[name])
        for column in self.columns:
            column.rounds += [()] * (count - len(column.rounds))
        self._drop_empty()

    def timings(self) -> tuple[Timing, ...]:
        return tuple(column.timing() for column in self.columns)

    def speedups(self, noise: float) -> tuple[Speedup, ...]:
        """The candidate against everybody else."""
        candidate = self.columns[0].rounds
        return tuple(
            statistics.speedup(c.contender.name, c.rounds, candidate, noise)
            for c in self.columns[1:]
            if any(a and b for a, b in zip(c.rounds, candidate, strict=True))
        )

    def _first_round(self, contenders: Sequence[Contender]) -> Mapping[str, float]:
        """About how long each takes, from rounds that do not count."""
        typical: dict[str, float] = {}
        for contender in contenders:
            self._between()
            try:
                contender.round(self._sets[:1], 2, FIRST_S)
                typical[contender.name] = min(contender.round(self._sets[:1], 2, FIRST_S).us)
            except Dropped as dropped:
                self._lose(contender, dropped, contenders[0])
        return typical

    def _take(self, column: Column, number: int, share: Share) -> None:
        begun = time.monotonic()
        try:
            taken = column.contender.round(share.order, share.warm_runs, share.seconds)
            column.add(number, taken, self._monitor.since(begun).throttled)
            if column is self.columns[0]:
                self._after_candidate(share.order)
        except Dropped as dropped:
            self._lose(column.contender, dropped, self.columns[0].contender)
            self.columns.remove(column)

    def _lose(self, contender: Contender, dropped: Dropped, candidate: Contender) -> None:
        if contender is candidate:
            raise dropped
        self.untimed.append(Untimed(contender.name, str(dropped)))

    def _drop_empty(self) -> None:
        """A baseline that was throttled in all its rounds has no time."""
        for column in self.columns[1:]:
            if not any(column.rounds):
                self.columns.remove(column)
                self.untimed.append(Untimed(column.contender.name, "the clocks were throttled by heat all the time"))
