"""Records of a measurement: the timer's tasks, a contest of one candidate or a race of equals, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cutegen_core.execute.cuda.program import Program, load_program
from cutegen_core.execute.port import Built
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.performance import BEST, EXISTING, WorkloadPerformance
from cutegen_core.records.problem import Workload
from cutegen_core.records.trial import Comparison, Mark, Status


class Watcher(Protocol):
    """The part of a trial's watch that the timer needs."""

    def say(self, text: str) -> None:
        """Show a short line under the running stage."""

    def stopped(self) -> bool:
        """Return True once the user wants the work abandoned."""


@dataclass(frozen=True)
class Entry:
    """A compiled kernel in a contest.

    Attributes:
        program: `cuda.program.program_of` the plan for the contest's workload and the compiled kernels.
    """

    cubin: bytes
    program: Program

    @classmethod
    def of(cls, built: Built, plan: LaunchPlan) -> Entry:
        """Make an entry of a candidate that the GPU executor has built."""
        assert built.path is not None
        return cls(built.path.read_bytes(), load_program(built, plan))


@dataclass(frozen=True)
class Contest:
    """One workload on which a candidate is checked and timed.

    Attributes:
        workload: a workload with role BENCHMARK.
        seed: of the values of all buffer sets; a fresh one except for a replay.
        best: the session's best so far, timed in turns with the candidate; None if there is none or it is the
            candidate.
        existing: the kernel that the problem begins with, timed in turns too; None if there is none or it is the
            candidate.
        baselines: also time the reference (eager, torch.compile, a library call); a sweep omits it for most
            combinations.
        remeasure: measure again in a fresh process; omitted if candidates only have to be ranked.
    """

    workload: Workload
    seed: int
    candidate: Entry
    best: Entry | None = None
    existing: Entry | None = None
    baselines: bool = True
    remeasure: bool = True

    @property
    def others(self) -> Mapping[str, Entry]:
        """The kernels timed beside the candidate, by the contender's name."""
        found = {BEST: self.best, EXISTING: self.existing}
        return {name: entry for name, entry in found.items() if entry is not None}


@dataclass(frozen=True)
class Race:
    """Kernels that are timed side by side on one workload and not judged: a sweep ranks its points by it.

    Attributes:
        entries: by the contender's name; all are equals.
        turns: how many times each is measured; a turn is its share of samples in a round of a contest.
    """

    workload: Workload
    seed: int
    entries: Mapping[str, Entry]
    turns: int


@dataclass(frozen=True)
class RaceResult:
    """Result of a race; an entry is in `samples_us` or in `lost`.

    Attributes:
        samples_us: of each entry, in the order taken.
        lost: why an entry has no samples: it crashed, hung, or heat throttled the clocks all the time.
        not_timed: why nothing could be timed, "" otherwise.
    """

    samples_us: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    not_timed: str = ""


@dataclass(frozen=True)
class Verdict:
    """Why a candidate is not timed although the machine could: it crashed, hung or was wrong at this size."""

    status: Status
    message: str


@dataclass(frozen=True)
class ContestResult:
    """Result of a contest. Exactly one of `performance`, `failure` and `not_timed` is set.

    Attributes:
        performance: the candidate first, then the best, the existing kernel, eager, torch.compile, the library call;
            `bounds` is left empty.
        failure: the verdict on a candidate that is at fault.
        not_timed: why the candidate was neither judged at this size nor timed although it is not at fault; the trial
            gets the mark NOT_TIMED.
        comparisons: the whole output of one buffer set compared with the reference, also when wrong.
        marks: UNSTABLE if the fresh process disagreed, NOT_TIMED with `not_timed`.
        executions: number of runs of the candidate. All are verified, except with `not_timed`: the first as a whole,
            the timed ones at random positions.
        seconds: duration of the whole measurement, including the wait for the device.
    """

    performance: WorkloadPerformance | None = None
    failure: Verdict | None = None
    not_timed: str = ""
    comparisons: tuple[Comparison, ...] = ()
    marks: tuple[Mark, ...] = ()
    executions: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if sum(map(bool, (self.performance, self.failure, self.not_timed))) != 1:
            raise ValueError("a measurement has exactly one of performance, failure and not_timed")
