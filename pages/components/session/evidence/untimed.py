"""Why a candidate has no time."""

from __future__ import annotations

from cutegen_core.records.trial import Stage, Trial
from cutegen_core.views.wording import NEEDS_GPU


def why_untimed(trial: Trial | None) -> str:
    """In a few words, without a full stop: of the machine, or of what it failed at."""
    if trial is None:
        return "not tried yet"
    if trial.executor == "cpu":
        return f"timing {NEEDS_GPU}"
    stage = next((result for result in trial.stages if result.stage is Stage.BENCHMARK), None)
    return trial.message or (stage.note if stage else "") or "the benchmark was skipped"
