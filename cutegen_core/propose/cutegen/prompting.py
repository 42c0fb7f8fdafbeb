"""Ask CuTeGen's questions: the templates under `prompts/`, with what each needs beside the request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cutegen_core.propose.cutegen import conversation
from cutegen_core.propose.cutegen.menus import open_items, profile_reason
from cutegen_core.propose.cutegen.switches import CUTEGEN, ProfileText, Switches
from cutegen_core.propose.families.family import MenuItem
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import feedback, profile_notes
from cutegen_core.propose.prompting.offers import offered
from cutegen_core.propose.prompting.rendering import (
    EXAMPLE,
    PLAIN_EXAMPLE,
    Prompt,
    fitted,
    rendered,
    said_since,
)
from cutegen_core.records.decision import Ideas

FOLDER = Path(__file__).parent / "prompts"
STALLED_AFTER = 2


class IdeasText(NamedTuple):
    """How a prompt tells how many ideas a step may try."""

    title: str
    how_many: str
    choose: str


_SEVERAL = "of these by their names, the one that matters most first in the line `Idea:`"
_IDEAS: Mapping[Ideas, IdeasText] = {
    Ideas.ONE: IdeasText("one idea", "exactly one idea", "one of these by its name"),
    Ideas.FEW: IdeasText("a few ideas", "up to three ideas that belong together", _SEVERAL),
    Ideas.FREE: IdeasText(
        "as many ideas as pay", "as many ideas as you are sure of, a new structure too if it pays", _SEVERAL
    ),
}


def seed(request: ProposalRequest, switches: Switches = CUTEGEN) -> Prompt:
    """Ask for the first kernel, a fast one where ideas are free; without refinement for the only one."""
    ambitious = request.effort.ideas is Ideas.FREE
    menu = () if switches.refines else items(request, switches)
    return _asked("seed.md.jinja", request, switches, menu=menu, ambitious=ambitious)


def optimise(request: ProposalRequest, switches: Switches = CUTEGEN) -> Prompt:
    """Ask for one idea on the best kernel, or as many as were chosen; profile text only after one of its triggers."""
    reason = profile_wanted(request, switches)
    profile = profile_notes.whole(request) if reason else ""
    untried = open_items(request.attempts, items(request, switches))
    ideas = _IDEAS[request.effort.ideas]
    return _asked(
        "optimise.md.jinja", request, switches, menu=untried, profile=profile, profile_reason=reason, ideas=ideas
    )


def items(request: ProposalRequest, switches: Switches) -> tuple[MenuItem, ...]:
    """Return the menu, tried or not; none where the strategy has none."""
    return offered(request) if switches.menus else ()


def profile_wanted(request: ProposalRequest, switches: Switches = CUTEGEN) -> str:
    """Return why profile text belongs into the next question, "" while it does not."""
    if switches.profile is not ProfileText.DELAYED:
        return "in each step" if switches.profile is ProfileText.ALWAYS else ""
    menu = items(request, switches) if switches.menus else None
    return profile_reason(request.attempts, menu, request.instruction, stalled_after=STALLED_AFTER)


def diagnose(request: ProposalRequest, switches: Switches = CUTEGEN) -> Prompt:
    """Ask for cause, evidence and smallest fix of the failure; no kernel."""
    return _asked("diagnose.md.jinja", request, switches, **feedback.failure(request))


def repair(request: ProposalRequest, diagnosis: str, switches: Switches = CUTEGEN) -> Prompt:
    """Ask for the smallest change that mends the failure."""
    return _asked("repair.md.jinja", request, switches, diagnosis=diagnosis, **feedback.failure(request))


def _asked(template: str, request: ProposalRequest, switches: Switches, **more: object) -> Prompt:
    """Return the question, behind the exchange before it where it has such a form and that is cheaper."""
    example = PLAIN_EXAMPLE if switches.plain_cuda else EXAMPLE
    fresh = fitted(FOLDER, template, request, example, switches=switches, **more)
    if request.former is None:
        return fresh
    before = request.former.prompt
    said = {"former": before, "said_since": said_since(before, request), "switches": switches}
    return conversation.cheaper(fresh, rendered(FOLDER, f"next_{template}", request, {**more, **said}), request)
