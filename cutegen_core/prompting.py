"""Prompts are files under `prompts/`, rendered strictly: a name the template asks for and nobody gives is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cutegen_core.proposer import ProposalRequest

FOLDER = Path(__file__).parent / "prompts"


def propose_prompt(request: ProposalRequest) -> str:
    """The prompt for one step, complete in itself."""
    template = _environment().get_template("propose.md.jinja")
    example = (FOLDER / "example.cu").read_text()
    return template.render(
        problem=request.problem,
        signature=request.signature,
        device=request.device,
        base=request.base,
        attempts=request.attempts,
        failure=request.failure,
        instruction=request.instruction,
        example=example,
    )


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, keep_trailing_newline=True)
