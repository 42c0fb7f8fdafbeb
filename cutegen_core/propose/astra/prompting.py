"""Ask the roles' questions: the templates under `prompts/`, with what each needs beside the request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cutegen_core.problems import suite
from cutegen_core.propose.astra.figures import describe, figures
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import feedback, profile_notes
from cutegen_core.propose.prompting.offers import offered
from cutegen_core.propose.prompting.rendering import Prompt, fitted
from cutegen_core.records.problem import WorkloadRole

FOLDER = Path(__file__).parent / "prompts"


def testing(request: ProposalRequest) -> Prompt:
    """Ask for workloads that tell the existing kernel from wrong ones."""
    tests = request.problem.with_role(WorkloadRole.EMULATOR)
    return fitted(
        FOLDER, "testing.md.jinja", request, small=tests[-1].sizes if tests else {},
        bears=[values.value for values in request.bears], sizes=suite.sizes_to_set(request.problem),
        limits=suite.LIMITS, refused=[tried.message for tried in request.suites],
    )  # fmt: skip


def profiling(request: ProposalRequest) -> Prompt:
    """Ask what bounds the base at each shape."""
    return fitted(FOLDER, "profiling.md.jinja", request, **_measured(request))


def planning(request: ProposalRequest, profile: str) -> Prompt:
    """Ask for one idea, for which shapes, its effect and its risk."""
    return fitted(FOLDER, "planning.md.jinja", request, said=profile.strip(), menu=_menu(request), **_measured(request))


def coding(request: ProposalRequest, plan: str) -> Prompt:
    """Ask for the change that the plan describes."""
    return fitted(FOLDER, "coding.md.jinja", request, plan=plan.strip(), **_measured(request))


def mending(request: ProposalRequest) -> Prompt:
    """Ask for the smallest change that mends the base, which failed."""
    return fitted(FOLDER, "mending.md.jinja", request, **feedback.failure(request))


def single(request: ProposalRequest) -> Prompt:
    """Ask one agent for everything: what bounds the kernel, one idea, and its code."""
    return fitted(FOLDER, "single.md.jinja", request, menu=_menu(request), **_measured(request))


def _menu(request: ProposalRequest) -> list[str]:
    return [f"{item.key}: {item.text}" for item in offered(request)]


def _measured(request: ProposalRequest) -> dict[str, object]:
    found = figures(request)
    timed = any(figure.us is not None for figure in found)
    return {"shapes": describe(found), "timed": timed, "profile": profile_notes.whole(_at_timed_shapes(request))}


def _at_timed_shapes(request: ProposalRequest) -> ProposalRequest:
    """Return the request with the occupancy at the timed workloads only: those of the tests say nothing about speed."""
    trial, timed = request.base_trial, {shape.workload.name for shape in request.shapes}
    if trial is None or trial.resources is None:
        return request
    kept = tuple(occupancy for occupancy in trial.resources.occupancy if occupancy.workload in timed)
    return replace(request, base_trial=replace(trial, resources=replace(trial.resources, occupancy=kept)))
