"""What the timer is asked and what it answers, as records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutegen_core.execute.cuda.program import Program, program_of
from cutegen_core.execute.port import Built
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.performance import WorkloadPerformance
from cutegen_core.records.problem import Workload
from cutegen_core.records.trial import Comparison, Mark, Status


class Watcher(Protocol):
    """The part of a trial's watch that the timer needs."""

    def say(self, text: str) -> None:
        """A short line under the running stage."""

    def stopped(self) -> bool:
        """True when the person wants the work abandoned."""


@dataclass(frozen=True)
class Entry:
    """A compiled kernel that takes part.

    Attributes:
        program: `gpu.program.program` of the plan resolved for the contest's workload and the compiled kernels.
    """

    cubin: bytes
    program: Program

    @classmethod
    def of(cls, built: Built, plan: LaunchPlan) -> Entry:
        """A candidate that the GPU executor has built."""
        assert built.path is not None
        return cls(built.path.read_bytes(), program_of(built, plan))


@dataclass(frozen=True)
class Contest:
    """One workload on which a candidate is checked and timed.

    Attributes:
        workload: one with role BENCHMARK.
        seed: of the values of all buffer sets; a fresh one unless replaying.
        best: the session's best so far, timed beside the candidate; None where there is none or it is the candidate.
        baselines: also time the reference (eager, torch.compile, a library call); TUNE leaves it out for most points.
        remeasure: once more in a fresh process; left out where only an order of candidates is wanted.
    """

    workload: Workload
    seed: int
    candidate: Entry
    best: Entry | None = None
    baselines: bool = True
    remeasure: bool = True


@dataclass(frozen=True)
class Verdict:
    """Why a candidate is not timed although the machine could: it crashed, hung or was wrong at this size."""

    status: Status
    message: str


@dataclass(frozen=True)
class Measured:
    """The outcome on one workload. Exactly one of `performance`, `failure` and `not_timed` is set.

    Attributes:
        performance: the candidate first, then the best, eager, torch.compile, the library call; `bounds` is left empty.
        failure: the verdict on a candidate that is at fault.
        not_timed: why the candidate was neither judged at this size nor timed although nobody is at fault; the trial is
            NOT_TIMED.
        comparisons: the whole output of one buffer set against the reference, also when wrong.
        marks: UNSTABLE where the fresh process disagreed, NOT_TIMED beside `not_timed`.
        executions: how often the candidate ran, all verified but beside `not_timed`: the first whole, the timed ones at
            random positions.
        seconds: of the whole measurement, waiting for the device included.
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
