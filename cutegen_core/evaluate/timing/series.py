"""Measure contenders in interleaved rounds and summarise the samples.

Some buffer sets are held back until the candidate's last round. A kernel that reuses results of earlier rounds (the
device's heap outlives a module) is slower on them than on the sets it has seen: that is SUSPECT.

The first round of a contender does not count, unless it is slow (`schedule.SLOW_US`) or skips rounds: eager PyTorch's
first use of a buffer set is up to 8 % slower (9 µs on an H200). The runner reads the candidate's sets before it uses
them first, which would take 0.6 % (a kernel of 128 µs) to 15 % longer (one of 4.4 µs).

After each round the device rests for three times the round's work. Without rests a large product drives the device into
its power limit, and one contender's consumption slows the next one down (bf16 products of 8192 on an H200: 1.37 ms with
rests, 1.37 to 1.62 ms without; the driver names the cause only 0.1 s later). For all contenders alike, times are those
of a device below that limit. Meanwhile outputs are checked and the next kernel's module is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

from cutegen_core.evaluate.timing import schedule, statistics
from cutegen_core.evaluate.timing.contenders import Contender, Dropped, RoundSamples
from cutegen_core.evaluate.timing.schedule import RoundShare
from cutegen_core.execute.cuda.nvml import Period
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import BEST, COMPILED, EAGER, EXISTING, Speedup, Timing, Untimed
from cutegen_core.records.trial import Status

FIRST_S = 150.0
"""Wall-clock limit of a contender's first round, in which torch.compile compiles."""

REST_SHARE, LONGEST_REST_S = 3.0, 0.05
SLOWER_UNSEEN, UNSEEN_STEP_US = 1.1, 1.0
"""Slowdown allowed on values that a kernel has not seen. Honest kernels of 4 to 6000 µs took 0.86 to 1.04 times as long
on an H200: what was read just before is found faster."""

_HELD_SHARE = 6
_THROTTLED = "the clocks were throttled by heat all the time"


class DeviceMonitor(Protocol):
    """Record of the device's state: `nvml.Monitor`."""

    def since(self, begun: float) -> Period: ...


@dataclass
class Column:
    """Samples of one contender; a round that was not measured or was dropped is empty.

    Attributes:
        dropped: number of samples taken while heat throttled the clocks.
        once_us: times of the launches marked once.
    """

    contender: Contender
    rounds: list[tuple[float, ...]] = field(default_factory=list)
    method: str = ""
    dropped: int = 0
    once_us: list[float] = field(default_factory=list)

    def add(self, number: int, taken: RoundSamples, throttled: bool) -> None:
        self.rounds += [()] * (number + 1 - len(self.rounds))
        self.method = taken.method
        if throttled:
            self.dropped += len(taken.us)
        else:
            self.rounds[number] = taken.us
            self.once_us += taken.once_us

    def timing(self) -> Timing:
        found = statistics.summarize_timing(self.contender.name, self.rounds, method=self.method, dropped=self.dropped)
        return replace(found, once_us=median(self.once_us)) if self.once_us else found


class Series:
    """Measures contenders side by side. In `run` the first is the candidate, whose failure ends the series; in `race`
    all are equals.

    Args:
        device: its name, for messages.
        sets: the buffer sets without the warm-up set; a sixth of them is held back.
        between: called between two rounds; raises an exception to stop the measurement.
        check: called with the sets of each round of the candidate and of the existing kernel; raises Dropped if outputs
            are wrong. A race has neither.
    """

    def __init__(
        self,
        device: str,
        sets: Sequence[int],
        monitor: DeviceMonitor,
        between: Callable[[], None],
        check: Callable[[Sequence[int]], None],
    ) -> None:
        self._device = device
        held = max(len(sets) // _HELD_SHARE, min(1, len(sets) // 2))
        self._sets, self._held, self._monitor = sets[: len(sets) - held], sets[len(sets) - held :], monitor
        self._rests_until = 0.0
        self._between, self._check = between, check
        self._candidate: Contender | None = None
        self.columns: list[Column] = []
        self.untimed: list[Untimed] = []

    def race(self, contenders: Sequence[Contender], turns: int) -> None:
        """Measure equals for some turns each; those that fail are in `untimed`, and no output is verified."""
        typical = self._estimate_times(contenders)
        self.columns = [Column(c) for c in contenders if c.name in typical]
        shares = {name: schedule.plan_turn(us, self._sets) for name, us in typical.items()}
        self._use_sets_first(shares)
        self._take_turns(shares, range(turns))
        for column in [c for c in self.columns if not any(c.rounds)]:
            self._drop(column, _THROTTLED)

    def run(self, contenders: Sequence[Contender], most_rounds: int = schedule.MOST_ROUNDS) -> None:
        """Measure all rounds, at most so many, or half of them if these say enough; `untimed` lists who fails.

        Raises:
            Dropped: the first contender failed.
            MachineError: heat throttled all of its samples, so that it has no time.
        """
        begun = time.monotonic()
        self._candidate = contenders[0]
        typical = self._estimate_times(contenders)
        self.columns = [Column(c) for c in contenders if c.name in typical]
        count = schedule.count_rounds(typical[contenders[0].name])
        shares = {name: schedule.plan_share(us, count, self._sets) for name, us in typical.items()}
        self._use_sets_first(shares)
        rounds = range(min(count, most_rounds))
        half, rest = rounds[: schedule.HALF_ROUNDS], rounds[schedule.HALF_ROUNDS :]
        self._take_turns(shares, half)
        if rest and not self._say_enough():
            self._take_turns(shares, rest)
        self._measure_held_sets(shares[contenders[0].name])
        longest = max(len(column.rounds) for column in self.columns)
        for column in self.columns:
            column.rounds += [()] * (longest - len(column.rounds))
        self._drop_empty(begun)

    def run_once(self, candidate: Contender, us: float) -> None:
        """Measure a single run of a kernel that takes about `us`; raises what `run` raises."""
        begun = time.monotonic()
        self._candidate, self.columns = candidate, [Column(candidate)]
        self._measure_round(self.columns[0], 0, schedule.plan_one_run(us, self._sets))
        self._drop_empty(begun)

    def samples(self) -> Mapping[str, tuple[float, ...]]:
        """Return every contender's samples in the order taken."""
        return {c.contender.name: tuple(us for taken in c.rounds for us in taken) for c in self.columns}

    def timings(self) -> tuple[Timing, ...]:
        return tuple(column.timing() for column in self.columns)

    def speedups(self, noise: float) -> tuple[Speedup, ...]:
        """Compare the candidate with every contender that shares a round with it."""
        candidate = self.columns[0].rounds
        return tuple(
            statistics.compute_speedup(c.contender.name, c.rounds, candidate, noise)
            for c in self.columns[1:]
            if self._shares_round(c)
        )

    def _use_sets_first(self, shares: Mapping[str, RoundShare]) -> None:
        """Measure a round that does not count."""
        for name, share in shares.items():
            if share.every == 1 and share.warm_runs:
                self._take_turn(name, None, share)

    def _take_turns(self, shares: Mapping[str, RoundShare], rounds: range) -> None:
        """Measure these rounds."""
        for number, name in schedule.iterate_turns(shares, rounds):
            self._take_turn(name, number, shares[name])

    def _take_turn(self, name: str, number: int | None, share: RoundShare) -> None:
        """Measure a round of one contender, unless it has failed."""
        self._between()
        column = next((c for c in self.columns if c.contender.name == name), None)
        if column is not None:
            self._measure_round(column, number, share)

    def _say_enough(self) -> bool:
        """Return whether more rounds would tell nothing: noise and intervals are within the floor of the noise.

        Neither depends on who is faster, so that stopping favours no word.
        """
        floor, candidate = statistics.NOISE_FLOOR, self.columns[0].rounds
        for column in self.columns:
            whole = len(column.rounds) == len(candidate) and all(column.rounds)
            if not whole or sum(map(len, column.rounds)) < schedule.FEWEST_SAMPLES:
                return False
        ratios = (statistics.bootstrap_ratio(c.rounds, candidate) for c in self.columns[1:])
        return all(statistics.aa_noise(c.rounds) <= floor for c in self.columns) and all(
            found.high - found.low <= floor * found.value for found in ratios
        )

    def _estimate_times(self, contenders: Sequence[Contender]) -> Mapping[str, float]:
        """Return the approximate time of each contender."""
        typical: dict[str, float] = {}
        for contender in contenders:
            self._between()
            try:
                first_warm = int(contender.name in (EAGER, COMPILED))  # a kernel may take seconds, and has run before
                us = min(contender.measure_round(self._sets[:1], first_warm, FIRST_S).us)
                if us < schedule.SLOW_US:
                    us = min(contender.measure_round(self._sets[:1], 2, FIRST_S).us)
                typical[contender.name] = us
            except Dropped as dropped:
                self._note_lost(contender, dropped)
        return typical

    def _measure_round(self, column: Column, number: int | None, share: RoundShare) -> None:
        """Measure a round of one contender; number None does not count."""
        begun = max(time.monotonic(), self._rests_until)
        try:
            taken = column.contender.measure_round(share.order, share.warm_runs, share.seconds, begun)
            ended = time.monotonic()
            if number is not None:
                column.add(number, taken, self._monitor.since(begun).throttled)
            work_s = (sum(taken.us) + share.warm_runs * taken.us[0]) / 1e6
            self._rests_until = ended + min(LONGEST_REST_S, REST_SHARE * work_s)
            if column.contender is self._candidate or column.contender.name == EXISTING:
                self._check(share.order)
        except Dropped as dropped:
            self._note_lost(column.contender, dropped)
            self.columns.remove(column)

    def _measure_held_sets(self, share: RoundShare) -> None:
        """Measure the candidate on unseen values: among sets that it has seen, or once where it is slow.

        Values on which it stays as slow, as often as it was timed on the others, take more work.
        """
        if not self._held:
            return
        again, unseen_sets = (share.order, self._held) if share.warm_runs else ((), self._held[:1])
        order = (*again, *unseen_sets)

        def measure() -> Sequence[float]:
            taken = self.columns[0].contender.measure_round(order, share.warm_runs, share.seconds)
            self._check(order)
            return taken.us

        taken = measure()
        before = taken[: len(again)] or self.samples()[self.columns[0].contender.name] or taken
        seen, unseen = median(before), median(taken[len(again) :])
        rounds = self.columns[0].rounds
        if _finds(seen, unseen) and any(_finds(median(measure()[len(again) :]), unseen) for _ in rounds):
            raise Dropped(
                Status.SUSPECT,
                f"it takes {seen:.4g} µs on values it was timed on before and {unseen:.4g} µs on values it has never "
                "seen: it seems to find earlier results again",
            )

    def _note_lost(self, contender: Contender, dropped: Dropped) -> None:
        if contender is self._candidate:
            raise dropped
        self.untimed.append(Untimed(contender.name, str(dropped)))

    def _drop_empty(self, begun: float) -> None:
        """Drop contenders without usable samples; the candidate must have some.

        The best is timed only for the comparison: keep it only if it shares a round with the candidate.
        """
        if not any(self.columns[0].rounds):
            seen = ", ".join(self._monitor.since(begun).reasons)
            raise MachineError(
                f"{self._device} was slowed down by heat all the time ({seen}); "
                "let it cool down, look at its fans and at what else runs on it, and try again."
            )
        for column in self.columns[1:]:
            if not any(column.rounds):
                self._drop(column, _THROTTLED)
            elif column.contender.name == BEST and not self._shares_round(column):
                self._drop(column, "heat left no round with samples of both it and the candidate")

    def _shares_round(self, column: Column) -> bool:
        """Return whether some round has samples of both the contender and the candidate."""
        return any(a and b for a, b in zip(column.rounds, self.columns[0].rounds, strict=True))

    def _drop(self, column: Column, reason: str) -> None:
        self.columns.remove(column)
        self.untimed.append(Untimed(column.contender.name, reason))


def _finds(seen_us: float, unseen_us: float) -> bool:
    """Return whether a kernel is so much slower on values it has not seen that it seems to find earlier results."""
    return unseen_us > max(SLOWER_UNSEEN * seen_us, seen_us + UNSEEN_STEP_US)
