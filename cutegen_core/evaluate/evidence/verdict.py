"""Collect the evidence of a trial."""

from __future__ import annotations

from cutegen_core.evaluate.evidence import cost, failure, profile, proof, speed
from cutegen_core.records.evidence import Evidence
from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Resources, Trial


def evidence(trial: Trial, *, profiled: Profile | None = None, before: Resources | None = None) -> Evidence:
    """Word everything that is known of a trial.

    Args:
        profiled: the profile of its kernel, where one was taken outside the trial.
        before: resources of the kernel that this one was made from.
    """
    cause = failure.cause(trial)
    explained = {section.topic for section in cause}
    facts = (
        *proof.proof(trial),
        *proof.marks(trial),
        *proof.runs(trial),
        *failure.diagnostics(trial),
        *cost.resources(trial.resources, before),
        *cost.occupancy(trial.resources),
        *speed.speed(trial),
        *profile.profile(profiled or (trial.performance.profile if trial.performance else None)),
    )
    facts = tuple(section for section in facts if section.topic not in explained)
    return Evidence(trial.status, trial.failed_stage, trial.message, cause, facts)
