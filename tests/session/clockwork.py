"""A session whose kernels really run, on the emulator, and whose clock is scripted: what the loop makes of times can be
tested where nothing can be timed. A kernel file says what it takes, `# takes 12.5 us`, in its plan: the plan is no part
of what is compiled, so kernels that differ only in their times are one build.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from cutegen_core.evaluate.timing.contest import Contest, ContestResult, Entry, Race, RaceResult
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import FUNCTIONS, Function
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Built
from cutegen_core.records.candidate import content_key
from cutegen_core.records.performance import (
    BEST,
    CANDIDATE,
    EAGER,
    EXISTING,
    Conditions,
    Speedup,
    Timing,
    Word,
    WorkloadPerformance,
)
from tests.session.real_sessions import Loop

NOISE = 0.005
EAGER_US = 60.0
CONDITIONS = Conditions("scripted", "", (0, 0), 0, (0, 0), (0.0, 0.0), (), 0, 4, 0, 0.0)


def taking(source: str, us: float) -> str:
    """Return the kernel file with its time written behind its idea."""
    return re.sub(r"^(idea = [^#\n]*?) *(?:#.*)?$", rf"\1  # takes {us} us", source, count=1, flags=re.MULTILINE)


class Timed(CpuExecutor):
    """The emulator, said to be timed. Its images carry the kernel file they were built from behind their last byte."""

    measures_speed = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._writing = threading.Lock()  # a trial asks for a build from several threads

    def build(self, kernel, params, compiled, **options) -> Built:
        built = super().build(kernel, params, compiled, **options)
        if built.path is None:
            return built
        names = {n: asdict(Function(m, demangle(m))) for n, m in (compiled().lowered or {}).items()}
        image = built.path.read_bytes() + kernel.text.encode()
        path = self.folder / content_key(image) / built.path.name
        with self._writing:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(built.path.parent / "kernels", path.parent)
                (path.parent / FUNCTIONS).write_text(json.dumps(names))
                path.write_bytes(image)
        return replace(built, path=path)


@dataclass
class Clock:
    """Plays `evaluate.timing.timer.Timer`; `answers` overrides what a source says, by a word in it."""

    contests: list[Contest] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)

    def race(self, race: Race, watch: object) -> RaceResult:
        self.races.append(race)
        return RaceResult({name: (self._us(entry),) * 4 * race.turns for name, entry in race.entries.items()})

    def measure(self, contest: Contest, watch: object) -> ContestResult:
        self.contests.append(contest)
        own = timing(CANDIDATE, self._us(contest.candidate))
        others = [timing(BEST, self._us(contest.best))] if contest.best else []
        others += [timing(EXISTING, self._us(contest.existing))] if contest.existing else []
        others += [timing(EAGER, EAGER_US)] if contest.baselines else []
        performance = WorkloadPerformance(
            contest.workload.name, (own, *others), tuple(speedup(own, o) for o in others), (), NOISE, CONDITIONS
        )
        return ContestResult(performance=performance)

    def _us(self, entry: Entry) -> float:
        found = re.search(rb"# takes ([\d.]+) us", entry.cubin)
        assert found, "the kernel does not say what it takes"
        return float(found[1])


class TimedLoop(Loop):
    """A loop on a scripted clock."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.executor = Timed(folder / "builds")
        self.clock = Clock()
        self.uuid = "GPU-one"

    def bench(self, session: str) -> _Bench:
        return _Bench(super().bench(session), self)


@dataclass(frozen=True)
class _Bench:
    real: object
    desk: TimedLoop

    def proposer(self, state):
        return self.real.proposer(state)

    def model(self, state, role=None):
        return self.real.model(state, role)

    def evaluator(self, state):
        real = self.real.evaluator(state)
        device = replace(real.device, uuid=self.desk.uuid)
        return replace(real, executor=self.desk.executor, timer=self.desk.clock, device=device)


def timing(name: str, us: float) -> Timing:
    """Return what the scripted clock says of a contender."""
    return Timing(name, us, us * 0.99, us * 1.01, NOISE, 40)


def speedup(own: Timing, other: Timing) -> Speedup:
    """Return how the contender stands to another, in the timer's words."""
    ratio = other.median_us / own.median_us
    word = Word.FASTER if ratio > 1 + 2 * NOISE else Word.SLOWER if ratio < 1 - 2 * NOISE else Word.SAME
    return Speedup(other.contender, ratio, ratio - NOISE, ratio + NOISE, word)
