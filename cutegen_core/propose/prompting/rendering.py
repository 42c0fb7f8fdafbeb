"""Render a strategy's prompts, strictly: a name that a template asks for and the code does not give is an error.

What stays the same in a session comes first (`_problem`, `_rules`), so that a server can keep it as a prefix; exemplar
and minimal file stand behind it, and only until a kernel has passed. A strategy's own templates lie in its package;
`prompts/` beside this module has the parts that all share. A prompt that would not fit the model's context loses its
exemplars first, then the oldest attempts; what was left out is said beside it, never silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cutegen_core.evaluate.evidence import cost
from cutegen_core.kernel.locked_regions import locked_regions
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.port import Ask, ProposalRequest
from cutegen_core.propose.prompting import facts, graph_notes, profile_notes
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.event import Role
from cutegen_core.records.trial import NO_KERNEL

SHARED = Path(__file__).parent / "prompts"
EXAMPLE = SHARED / "example.cu"
PLAIN_EXAMPLE = SHARED / "plain_example.cu"
_REPLY_CHARACTERS = 4000
_NOTED = 200  # of an outcome, all of which a prompt has room for
_STANDING = "## Standing instructions of the person"

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


def fitted(folder: Path, template: str, request: ProposalRequest, example: Path = EXAMPLE, /, **more: object) -> Prompt:
    """Return the prompt of a template in `folder`, made short enough for the request's context.

    Args:
        example: the minimal file; with another than CuTe's, no exemplar of the class is shown.
    """
    exemplars = _exemplars(request) if example == EXAMPLE else ()
    more = {**more, "example": "" if request.has_passed else example.read_text()}
    left_out: list[str] = []
    while True:
        text = rendered(folder, template, request, {**more, "exemplars": exemplars})
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


def rendered(folder: Path, template: str, request: ProposalRequest, more: Mapping[str, Any]) -> str:
    """Return the text of a template in `folder`, given the request's facts and `more`."""
    text = (
        _environment(folder)
        .get_template(template)
        .render(
            problem=request.problem,
            signature=request.signature,
            graph_notes=graph_notes.describe(request.graph, request.signature),
            work=facts.work(request),
            shapes_of=facts.shapes(request),
            executor=facts.executor(request),
            device=request.device,
            base=request.base,
            timing=_timing(request),
            attempts=request.attempts,
            instruction=request.instruction,
            standing=request.standing,
            others_try=request.others_try,
            unusable=_unusable(request),
            locked=locked_regions(request.base.source) if request.base else (),
            **more,
        )
    )
    return _BLANKS_OR_CODE.sub(lambda found: found[0] if found[0].strip() else "\n\n", text)


def _unusable(request: ProposalRequest) -> str:
    """Return why the last reply held no kernel, and the reply; "" where it did."""
    if request.failure is None or request.failure.status not in NO_KERNEL:
        return ""
    reply = quoted(request.failed_reply)
    return f"{request.failure.message}\n{reply}" if reply else request.failure.message


def quoted(reply: str, heading: str = "Your reply was:") -> str:
    """Return a failed reply, or its failed blocks, for its author, cut to what a prompt has room for; "" for none."""
    text = reply.strip()
    cut = f"{text[:_REPLY_CHARACTERS]}\n(cut off here)" if len(text) > _REPLY_CHARACTERS else text
    return f"{heading}\n~~~~\n{cut}\n~~~~" if text else ""


def said_since(prompt: str, request: ProposalRequest) -> str:
    """Return what the person changed after a prompt was written, which is sent once more: instructions and notes."""
    parts = []
    if request.standing not in prompt:
        parts.append(f"{_STANDING}, in place of any above\n{request.standing}")
    elif not request.standing and _STANDING in prompt:
        parts.append(f"{_STANDING}\nThey were withdrawn.")
    noted = (a for a in request.attempts if f"- step {a.step}: " in prompt and a.outcome[:_NOTED] not in prompt)
    parts += [f"## What the person notes on step {a.step}\n{a.outcome}" for a in noted]
    return "".join(f"\n{part}\n" for part in parts)


def _timing(request: ProposalRequest) -> str:
    """Return how fast the base is, or its estimate, and a line of what each of its kernels spends."""
    trial = request.base_trial
    if trial is None or not trial.passed:
        return ""
    guessed = f"Passed, not measured; {cost.estimate_text(trial.estimate)}" if trial.estimate else ""
    named = [shape.workload.name for shape in request.shapes]
    spent = cost.one_line(trial.resources, named) if trial.resources else ""
    return "\n".join(part for part in (profile_notes.timing_text(trial), guessed, spent) if part)


def _exemplars(request: ProposalRequest) -> tuple[str, ...]:
    """Return kernels of the same class; none once a kernel of the session passed, which shows the form as well."""
    exemplar = "" if request.has_passed else classify(request.graph).exemplar
    return (exemplar,) if exemplar else ()


@cache
def _environment(folder: Path) -> Environment:
    loader = FileSystemLoader([folder, SHARED])
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True)
