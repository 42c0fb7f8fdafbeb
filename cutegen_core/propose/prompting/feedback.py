"""Write the evidence of a trial for a model: why a kernel failed, and what one that passed costs.

The words are those of `evaluate.evidence`; here they are cut to what a prompt has room for, and the lines of the
kernel file that they are about are quoted.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.evaluate.evidence import cost, plain_text, verdict
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.records.evidence import Section, Tone, Topic
from cutegen_core.records.trial import Resources, Trial

_ROWS = {Topic.DIAGNOSTICS: 5, Topic.FINDINGS: 5}
_NOTES = {Topic.DIAGNOSTICS: 6, Topic.RESOURCES: 1}
_ALL = 100


def evidence(trial: Trial, source: str) -> str:
    """Write why a trial failed; return "" for one that passed."""
    if trial.passed:
        return ""
    found = verdict.evidence(trial)
    cause = (_errors(section).clipped(_ROWS.get(section.topic, _ALL), _NOTES.get(section.topic, 0))
             for section in found.cause)  # fmt: skip
    return "\n".join([f"Verdict: {found.headline}", plain_text.text(cause, source)]).rstrip()


def failure(request: ProposalRequest) -> dict[str, str]:
    """Return what a repair's prompt says: the evidence against the base, and what the base was meant to do."""
    assert request.base_trial is not None
    assert request.base is not None
    return {
        "evidence": evidence(request.base_trial, request.base.source),
        "intent": request.base.idea or "the seed",
    }


def _errors(section: Section) -> Section:
    """Leave warnings out of the diagnostics where there is an error."""
    if section.topic is not Topic.DIAGNOSTICS:
        return section
    errors = tuple(remark for remark in section.remarks if remark.tone is Tone.BAD)
    return replace(section, remarks=errors or section.remarks)


def resources_text(resources: Resources) -> str:
    """Write what the compiler spent: the only profile there is without a GPU."""
    return plain_text.text((*cost.resources(resources), *cost.occupancy(resources)))
