"""Render a strategy's prompts, strictly: a name that a template asks for and the code does not give is an error.

A strategy's own templates lie in its package; `prompts/` beside this module has the parts that all share. A prompt that
would not fit the model's context loses its exemplars first, then the oldest attempts; what was left out is said beside
it, never silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cutegen_core.kernel.locked_regions import locked_regions
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.port import Ask, ProposalRequest
from cutegen_core.propose.prompting import graph_notes, profile_notes
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.event import Role
from cutegen_core.records.trial import Status

SHARED = Path(__file__).parent / "prompts"
EXAMPLE = SHARED / "example.cu"
_NO_KERNEL = (Status.UNPARSED, Status.PATCH_FAILED)

# Code stays as it is to the letter: a SEARCH text is copied from it.
_BLANKS_OR_CODE = re.compile(r"^```\w*\n.*?^```$|\n{3,}", re.MULTILINE | re.DOTALL)


class Prompt(NamedTuple):
    """A rendered prompt; `left_out` names what did not fit."""

    text: str
    tokens: int
    left_out: tuple[str, ...]

    def ask(self, role: Role, offered: str = "") -> Ask:
        """Return the question to a role, with its size and what was left out."""
        note = f"about {self.tokens} tokens"
        note = f"{note}; left out: {', '.join(self.left_out)}" if self.left_out else note
        return Ask(role, self.text, note, offered)


def fitted(folder: Path, template: str, request: ProposalRequest, **more: object) -> Prompt:
    """Return the prompt of a template in `folder`, made short enough for the request's context."""
    exemplars = _exemplars(request)
    left_out: list[str] = []
    while True:
        text = _render(folder, template, request, exemplars, more)
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


def _render(
    folder: Path, template: str, request: ProposalRequest, exemplars: tuple[str, ...], more: Mapping[str, Any]
) -> str:
    text = (
        _environment(folder)
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
            example=EXAMPLE.read_text(),
            **more,
        )
    )
    return _BLANKS_OR_CODE.sub(lambda found: found[0] if found[0].strip() else "\n\n", text)


def _timing(request: ProposalRequest) -> str:
    """Return how fast the base is, "" if nothing was timed."""
    return profile_notes.timing_text(request.base_trial) if request.base_trial else ""


def _exemplars(request: ProposalRequest) -> tuple[str, ...]:
    exemplar = classify(request.graph).exemplar
    return (exemplar,) if exemplar else ()


@cache
def _environment(folder: Path) -> Environment:
    loader = FileSystemLoader([folder, SHARED])
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True)
