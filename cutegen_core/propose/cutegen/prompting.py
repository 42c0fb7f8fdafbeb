"""Render the prompts under `prompts/`, strictly: a name that a template asks for and the code does not give is an
error.

A prompt that would not fit the model's context loses its exemplars first, then the oldest attempts; what was left out
is said beside it, never silently.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cutegen_core.propose.cutegen.menus import menu, open_items, profile_reason
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import feedback, graph_notes, profile_notes
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.trial import Status

FOLDER = Path(__file__).parent / "prompts"
STALLED_AFTER = 2
_NO_KERNEL = (Status.UNPARSED, Status.PATCH_FAILED)
_LOCK = re.compile(
    r"^[ \t]*//[ \t]*cutegen: lock\b[^\n]*\n(.*?)(?:^[ \t]*//[ \t]*cutegen: unlock\b|\Z)", re.MULTILINE | re.DOTALL
)

# Code stays as it is to the letter: a SEARCH text is copied from it.
_BLANKS_OR_CODE = re.compile(r"^```\w*\n.*?^```$|\n{3,}", re.MULTILINE | re.DOTALL)


class Prompt(NamedTuple):
    """A rendered prompt; `left_out` names what did not fit."""

    text: str
    tokens: int
    left_out: tuple[str, ...]


def locked_regions(source: str) -> tuple[str, ...]:
    """Return the texts between `// cutegen: lock` and `// cutegen: unlock` (or the end): no model may change them."""
    return tuple(match[1] for match in _LOCK.finditer(source.replace("\r\n", "\n")))


def seed(request: ProposalRequest) -> Prompt:
    """Ask for the first kernel."""
    return _fitted("seed.md.jinja", request)


def optimise(request: ProposalRequest) -> Prompt:
    """Ask for one idea on the best kernel; profile text only after one of its triggers."""
    items = menu(classify(request.graph), request.device.arch)
    reason = profile_wanted(request)
    profile = _profile(request) if reason else ""
    return _fitted(
        "optimise.md.jinja", request, menu=open_items(request.attempts, items), profile=profile, profile_reason=reason
    )


def profile_wanted(request: ProposalRequest) -> str:
    """Return why profile text belongs into the next question, "" while it does not."""
    items = menu(classify(request.graph), request.device.arch)
    return profile_reason(request.attempts, items, request.instruction, stalled_after=STALLED_AFTER)


def diagnose(request: ProposalRequest) -> Prompt:
    """Ask for cause, evidence and smallest fix of the failure; no kernel."""
    return _fitted("diagnose.md.jinja", request, **_failure(request))


def repair(request: ProposalRequest, diagnosis: str) -> Prompt:
    """Ask for the smallest change that mends the failure."""
    return _fitted("repair.md.jinja", request, diagnosis=diagnosis, **_failure(request))


def _profile(request: ProposalRequest) -> str:
    """Return the compiler's resources, and the profile if there is one."""
    trial = request.base_trial
    spent = feedback.resources_text(trial.resources) if trial and trial.resources else ""
    source = request.base.source if request.base else ""
    seen = profile_notes.text(request.profile, source) if request.profile else request.profile_note
    return "\n".join(part for part in (seen, spent) if part)


def _timing(request: ProposalRequest) -> str:
    """Return how fast the base is, "" if nothing was timed."""
    return profile_notes.timing_text(request.base_trial) if request.base_trial else ""


def _failure(request: ProposalRequest) -> dict[str, str]:
    assert request.base_trial is not None
    assert request.base is not None
    return {
        "evidence": feedback.evidence(request.base_trial, request.base.source),
        "intent": request.base.idea or "the seed",
    }


def _fitted(template: str, request: ProposalRequest, **more: object) -> Prompt:
    exemplars = _exemplars(request)
    left_out: list[str] = []
    while True:
        text = _render(template, request, exemplars, more)
        tokens = estimate_tokens(text)
        if not request.context_tokens or tokens <= request.context_tokens:
            return Prompt(text, tokens, tuple(left_out))
        if exemplars:
            exemplars = exemplars[:-1]
            left_out.append("a verified kernel of the same class")
        elif request.attempts:
            left_out.append(f"step {request.attempts[0].step} of what was tried")
            request = replace(request, attempts=request.attempts[1:])
        else:
            return Prompt(text, tokens, (*left_out, "nothing more can be left out; it may not fit the model's context"))


def _render(template: str, request: ProposalRequest, exemplars: tuple[str, ...], more: dict[str, Any]) -> str:
    text = (
        _environment()
        .get_template(template)
        .render(
            problem=request.problem,
            signature=request.signature,
            graph_notes=graph_notes.describe(request.graph, request.signature),
            bound=classify(request.graph).bound,
            device=request.device,
            base=request.base,
            peaks=request.peaks,
            timing=_timing(request),
            attempts=request.attempts,
            instruction=request.instruction,
            standing=request.standing,
            unusable=request.failure.message if request.failure and request.failure.status in _NO_KERNEL else "",
            locked=locked_regions(request.base.source) if request.base else (),
            exemplars=exemplars,
            example=(FOLDER / "example.cu").read_text(),
            **more,
        )
    )
    return _BLANKS_OR_CODE.sub(lambda found: found[0] if found[0].strip() else "\n\n", text)


def _exemplars(request: ProposalRequest) -> tuple[str, ...]:
    exemplar = classify(request.graph).exemplar
    return (exemplar,) if exemplar else ()


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, keep_trailing_newline=True)
