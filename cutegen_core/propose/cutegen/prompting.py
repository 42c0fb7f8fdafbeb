"""Ask CuTeGen's questions: the templates under `prompts/`, with what each needs beside the request."""

from __future__ import annotations

from pathlib import Path

from cutegen_core.propose.cutegen.menus import open_items, profile_reason
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import feedback, profile_notes
from cutegen_core.propose.prompting.offers import offered
from cutegen_core.propose.prompting.rendering import Prompt, fitted

FOLDER = Path(__file__).parent / "prompts"
STALLED_AFTER = 2


def seed(request: ProposalRequest) -> Prompt:
    """Ask for the first kernel."""
    return fitted(FOLDER, "seed.md.jinja", request)


def optimise(request: ProposalRequest) -> Prompt:
    """Ask for one idea on the best kernel; profile text only after one of its triggers."""
    items = offered(request)
    reason = profile_wanted(request)
    profile = profile_notes.whole(request) if reason else ""
    untried = open_items(request.attempts, items)
    return fitted(FOLDER, "optimise.md.jinja", request, menu=untried, profile=profile, profile_reason=reason)


def profile_wanted(request: ProposalRequest) -> str:
    """Return why profile text belongs into the next question, "" while it does not."""
    items = offered(request)
    return profile_reason(request.attempts, items, request.instruction, stalled_after=STALLED_AFTER)


def diagnose(request: ProposalRequest) -> Prompt:
    """Ask for cause, evidence and smallest fix of the failure; no kernel."""
    return fitted(FOLDER, "diagnose.md.jinja", request, **feedback.failure(request))


def repair(request: ProposalRequest, diagnosis: str) -> Prompt:
    """Ask for the smallest change that mends the failure."""
    return fitted(FOLDER, "repair.md.jinja", request, diagnosis=diagnosis, **feedback.failure(request))
