"""The evidence of a step: its trial in words, with the profile and the parent's resources from the store."""

from __future__ import annotations

from cutegen_core.evaluate.evidence.verdict import evidence
from cutegen_core.records.evidence import Evidence
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.profiles import profile_view
from cutegen_core.views.session import StepView, base_trial


def step_evidence(store: Store, state: State, shown: StepView) -> Evidence | None:
    """Return the evidence of a step; None before the step was tried."""
    if shown.trial is None:
        return None
    before = base_trial(store, state, shown.step)
    profiled = profile_view(store, state, shown.step).profile
    return evidence(shown.trial, profiled=profiled, before=before.resources if before else None)
