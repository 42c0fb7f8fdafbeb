"""A session whose kernels really run, on the emulator, and whose clock is scripted: what the loop makes of times can be
tested where nothing can be timed. A kernel file says what it takes: `// takes 12.5 us`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from cutegen_core.evaluate.timing.contest import Contest, ContestResult, Entry
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import FUNCTIONS, Function
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Built
from cutegen_core.records.performance import (
    BEST,
    CANDIDATE,
    EAGER,
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
    """The kernel file with its time written into it."""
    return f"{re.sub(r'// takes .* us', '', source).rstrip()}\n// takes {us} us\n"


class Timed(CpuExecutor):
    """The emulator, said to be timed."""

    measures_speed = True

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, str] = {}

    def build(self, kernel, params, compiled, *, checked) -> Built:
        built = super().build(kernel, params, compiled, checked=checked)
        if built.path is not None:
            names = {n: asdict(Function(m, demangle(m))) for n, m in (compiled().lowered or {}).items()}
            (built.path.parent / FUNCTIONS).write_text(json.dumps(names))
            self.sources[_key(built.path.read_bytes())] = kernel.text
        return built


@dataclass
class Clock:
    """Plays `evaluate.timing.timer.Timer`; `answers` overrides what a source says, by a word in it."""

    executor: Timed
    contests: list[Contest] = field(default_factory=list)

    def measure(self, contest: Contest, watch: object) -> ContestResult:
        self.contests.append(contest)
        own = _timing(CANDIDATE, self._us(contest.candidate))
        others = [_timing(BEST, self._us(contest.best))] if contest.best else []
        others += [_timing(EAGER, EAGER_US)] if contest.baselines else []
        performance = WorkloadPerformance(
            contest.workload.name, (own, *others), tuple(_speedup(own, o) for o in others), (), NOISE, CONDITIONS
        )
        return ContestResult(performance=performance)

    def _us(self, entry: Entry) -> float:
        found = re.search(r"// takes ([\d.]+) us", self.executor.sources[_key(entry.cubin)])
        assert found, "the kernel does not say what it takes"
        return float(found[1])


class TimedLoop(Loop):
    """A loop on a scripted clock."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.executor = Timed()
        self.clock = Clock(self.executor)
        self.uuid = "GPU-one"

    def bench(self, session: str) -> _Bench:
        return _Bench(super().bench(session), self)


@dataclass(frozen=True)
class _Bench:
    real: object
    desk: TimedLoop

    def proposer(self, state):
        return self.real.proposer(state)

    def model(self, state):
        return self.real.model(state)

    def evaluator(self, state):
        real = self.real.evaluator(state)
        device = replace(real.device, uuid=self.desk.uuid)
        return replace(real, executor=self.desk.executor, timer=self.desk.clock, device=device)


def _key(built: bytes) -> str:
    return hashlib.sha256(built).hexdigest()


def _timing(name: str, us: float) -> Timing:
    return Timing(name, us, us * 0.99, us * 1.01, NOISE, 40)


def _speedup(own: Timing, other: Timing) -> Speedup:
    ratio = other.median_us / own.median_us
    word = Word.FASTER if ratio > 1 + 2 * NOISE else Word.SLOWER if ratio < 1 - 2 * NOISE else Word.SAME
    return Speedup(other.contender, ratio, ratio - NOISE, ratio + NOISE, word)
