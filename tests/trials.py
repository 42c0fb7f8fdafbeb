"""A trial that passed, as the stages would have it."""

from __future__ import annotations

from cutegen_core.records.performance import Performance
from cutegen_core.records.trial import (
    Correctness,
    ExecutorKind,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)


def passed_trial(candidate: str, resources: Resources, performance: Performance | None = None) -> Trial:
    """Return one on the emulator, or on a GPU with its times."""
    executor = ExecutorKind.GPU if performance else ExecutorKind.CPU
    ran = (Stage.COMPILE, Stage.TEST, Stage.BENCHMARK) if performance else (Stage.COMPILE, Stage.TEST)
    verdicts = (WorkloadVerdict("one", "checked", 1, Status.PASSED, 0.1),)
    return Trial(
        candidate, Status.PASSED, tuple(StageResult(stage, StageStatus.PASSED, 0.5) for stage in ran), executor,
        correctness=Correctness(executor, verdicts), resources=resources, performance=performance,
    )  # fmt: skip
