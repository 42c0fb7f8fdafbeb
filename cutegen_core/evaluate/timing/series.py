"""Interleaved rounds of several contenders, and the record that comes of them.

Some buffer sets are held back until the candidate's last round. A kernel that finds results of earlier rounds again
(the device's heap outlives a module) is slower on them than on those it has seen: that is SUSPECT.

The first round of a contender does not count, but for those so slow that they sit rounds out: what touches a buffer set
for the first time is 0.6 % (a kernel of 128 µs) to 4 % (one of 11 µs) slower there than ever again.

After each round comes a rest of three times its work: a large product otherwise runs the device into its power limit,
and what one contender drew from that budget is charged to the next (bf16 products of 8192 on an H200: 1.37 ms with
rests, 1.37 to 1.62 ms without; the driver names the cause only 0.1 s later). Times are those of a device not yet at
that limit, for all contenders alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from cutegen_core.evaluate.timing import schedule, statistics
from cutegen_core.evaluate.timing.contenders import Contender, Dropped, Taken
from cutegen_core.evaluate.timing.schedule import Share
from cutegen_core.execute.cuda.nvml import Period
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import BEST, Speedup, Timing, Untimed
from cutegen_core.records.trial import Status

FIRST_S = 150.0
"""Wall-clock limit of a contender's first round; torch.compile compiles in it."""

REST_SHARE, LONGEST_REST_S = 3.0, 0.05
SLOWER_UNSEEN, UNSEEN_STEP_US = 1.1, 2.5
"""What an honest kernel may lose on buffers it touches for the first time. Their addresses are not yet translated: an
honest product of 8.9 µs took 10.1 on an H200."""

_HELD_SHARE = 6


class Looks(Protocol):
    """What has seen the device's state: `nvml.Monitor`."""

    def since(self, begun: float) -> Period: ...


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
        device: its name, for what is said about it.
        sets: the buffer sets, the warm-up set left out; a sixth of them is held back.
        between: called between two rounds of contenders; raises what stops the measurement.
        after_candidate: called with the sets of each round of the candidate; raises Dropped when outputs are wrong.
    """

    def __init__(
        self,
        device: str,
        sets: Sequence[int],
        monitor: Looks,
        between: Callable[[], None],
        after_candidate: Callable[[Sequence[int]], None],
    ) -> None:
        self._device = device
        held = max(len(sets) // _HELD_SHARE, min(1, len(sets) // 2))
        self._sets, self._held, self._monitor = sets[: len(sets) - held], sets[len(sets) - held :], monitor
        self._rest_s = 0.0
        self._between, self._after_candidate = between, after_candidate
        self.columns: list[Column] = []
        self.untimed: list[Untimed] = []

    def run(self, contenders: Sequence[Contender]) -> None:
        """All rounds; a contender that fails, but for the first, is noted in `untimed`.

        Raises:
            Dropped: the first contender failed.
            MachineError: all its samples were taken in heat, so that it has no time.
        """
        begun = time.monotonic()
        typical = self._first_samples(contenders)
        self.columns = [Column(c) for c in contenders if c.name in typical]
        count = schedule.rounds(typical[contenders[0].name])
        shares = {name: schedule.share(us, count, self._sets) for name, us in typical.items()}
        first = [(None, name) for name, share in shares.items() if share.every == 1]
        for number, name in (*first, *schedule.turns(shares, count)):
            self._between()
            column = next((c for c in self.columns if c.contender.name == name), None)
            if column is not None:
                self._take(column, number, shares[name])
        self._look_at_held(shares[contenders[0].name])
        for column in self.columns:
            column.rounds += [()] * (count - len(column.rounds))
        self._drop_empty(begun)

    def timings(self) -> tuple[Timing, ...]:
        return tuple(column.timing() for column in self.columns)

    def speedups(self, noise: float) -> tuple[Speedup, ...]:
        """The candidate against everybody else who was timed beside it."""
        candidate = self.columns[0].rounds
        return tuple(
            statistics.speedup(c.contender.name, c.rounds, candidate, noise)
            for c in self.columns[1:]
            if self._beside(c)
        )

    def _first_samples(self, contenders: Sequence[Contender]) -> Mapping[str, float]:
        """About how long each takes."""
        typical: dict[str, float] = {}
        for contender in contenders:
            self._between()
            try:
                contender.round(self._sets[:1], 2, FIRST_S)
                typical[contender.name] = min(contender.round(self._sets[:1], 2, FIRST_S).us)
            except Dropped as dropped:
                self._lose(contender, dropped, contenders[0])
        return typical

    def _take(self, column: Column, number: int | None, share: Share) -> None:
        """A round of one contender; None is the one that does not count."""
        time.sleep(self._rest_s)
        begun = time.monotonic()
        try:
            taken = column.contender.round(share.order, share.warm_runs, share.seconds)
            if number is not None:
                column.add(number, taken, self._monitor.since(begun).throttled)
            work_s = (sum(taken.us) + share.warm_runs * taken.us[0]) / 1e6
            self._rest_s = min(LONGEST_REST_S, REST_SHARE * work_s)
            if column is self.columns[0]:
                self._after_candidate(share.order)
        except Dropped as dropped:
            self._lose(column.contender, dropped, self.columns[0].contender)
            self.columns.remove(column)

    def _look_at_held(self, share: Share) -> None:
        """The candidate on values it has never seen, among others it has."""
        if not self._held:
            return
        taken = self.columns[0].contender.round((*share.order, *self._held), share.warm_runs, share.seconds)
        self._after_candidate((*share.order, *self._held))
        seen, unseen = median(taken.us[: len(share.order)]), median(taken.us[len(share.order) :])
        if unseen > max(SLOWER_UNSEEN * seen, seen + UNSEEN_STEP_US):
            raise Dropped(
                Status.SUSPECT,
                f"it takes {seen:.4g} µs on values it was timed on before and {unseen:.4g} µs on values it has never "
                "seen: it seems to find earlier results again",
            )

    def _lose(self, contender: Contender, dropped: Dropped, candidate: Contender) -> None:
        if contender is candidate:
            raise dropped
        self.untimed.append(Untimed(contender.name, str(dropped)))

    def _drop_empty(self, begun: float) -> None:
        """Who was throttled in all rounds has no time; that of the candidate nobody can do without.

        The best is timed for the comparison alone: samples of other moments than the candidate's are none.
        """
        if not any(self.columns[0].rounds):
            seen = ", ".join(self._monitor.since(begun).reasons)
            raise MachineError(
                f"{self._device} was slowed down by heat all the time ({seen}); "
                "let it cool down, look at its fans and at what else runs on it, and try again."
            )
        for column in self.columns[1:]:
            if not any(column.rounds):
                self._drop(column, "the clocks were throttled by heat all the time")
            elif column.contender.name == BEST and not self._beside(column):
                self._drop(column, "heat left no round with samples of both it and the candidate")

    def _beside(self, column: Column) -> bool:
        """Whether some round has samples of the contender and of the candidate."""
        return any(a and b for a, b in zip(column.rounds, self.columns[0].rounds, strict=True))

    def _drop(self, column: Column, reason: str) -> None:
        self.columns.remove(column)
        self.untimed.append(Untimed(column.contender.name, reason))
