"""What Astra and its twin with one role have in common: where they begin, what repeats, when they end.

A session begins with the existing kernel as its first candidate: it must pass, else there is nothing to make faster.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.propose import headroom
from cutegen_core.propose.port import Answer, Attempt, Call, Finished, Proposal, ProposalRequest, WantsStudy
from cutegen_core.propose.prompting.rendering import Prompt
from cutegen_core.propose.replies.reading import find_idea, first_words
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.trial import Status

EXISTING_IDEA = "the existing kernel"
FRUITLESS_LIMIT = 6
"""Steps in a row without a promotion after which the strategy gives up."""
MAX_REPAIRS = 2
ANSWERS_EACH = 2
"""How often a plan, or code, is asked for in a step: once, and once more with what was wrong."""
CANNOT_MEND = "the playbook cannot repair a kernel: edit it by hand, or rewind to one that passed"
_NO_KERNEL = (Status.UNPARSED, Status.PATCH_FAILED)


def begin(request: ProposalRequest) -> Answer | None:
    """Return the existing kernel to try, or the end where it failed; None where there is a kernel to change."""
    if request.base is not None:
        return None
    existing = request.problem.existing
    tries = [attempt for attempt in request.attempts if attempt.candidate == content_key(existing)]
    last = tries[-1] if tries else None
    if last is not None and last.status is not None and last.status is not Status.PASSED:
        return Finished(f"the existing kernel does not pass ({last.outcome}): repair it, or the problem's tests")
    if last is not None and last.rejected:
        return Finished("you rejected the existing kernel, and there is no other to begin with")
    if last is not None and last.status is Status.PASSED and request.instruction:
        return None
    plan = "The kernel in use must pass its own tests before anything is changed."
    return Proposal(existing, Author.IMPORT, EXISTING_IDEA, plan)


def with_base(request: ProposalRequest) -> ProposalRequest:
    """Return the request with the existing kernel as its base where the session has no best kernel."""
    if request.base is not None:
        return request
    return replace(request, base=Candidate(request.problem.existing, Author.IMPORT, idea=EXISTING_IDEA))


def is_mending(request: ProposalRequest) -> bool:
    """Return whether the base failed: the step mends it."""
    return request.base_trial is not None and not request.base_trial.passed


def answers_of(request: ProposalRequest, role: Role) -> tuple[Call, ...]:
    """Return this step's exchanges with a role, those that count."""
    return tuple(call for call in request.calls if call.role is role)


def over(request: ProposalRequest) -> Answer | None:
    """Return the sweep that the person asks for, or the end: near the bound, too dear, or after fruitless steps."""
    if re.search(r"\bsweep\b", request.instruction.lower()) and _is_tunable(request):
        return WantsStudy(StudyKind.SWEEP, "asked for: a sweep of the declared parameters")
    if request.instruction:
        return None
    enough = headroom.reached(request) or headroom.too_dear(request)
    if enough:
        return end(enough, request)
    tail = request.attempts[-FRUITLESS_LIMIT:]
    fruitless = len(tail) == FRUITLESS_LIMIT and not any(attempt.promoted for attempt in tail)
    return end(f"{FRUITLESS_LIMIT} steps in a row brought nothing", request) if fruitless else None


def end(reason: str, request: ProposalRequest) -> Answer:
    """Return a sweep of the best kernel's parameters where times decide and none was done; then the end."""
    if request.can_profile and not request.swept and _is_tunable(request):
        return WantsStudy(StudyKind.SWEEP, f"{reason}: sweep the declared parameters")
    return Finished(reason)


def find_repeated(reply: str, request: ProposalRequest) -> Attempt | None:
    """Return the earlier step that took the same idea to a verdict, or that the person rejected; None for a new one."""
    key = first_words(find_idea(reply))
    tried = (a for a in request.attempts if (a.status is not None and a.status not in _NO_KERNEL) or a.rejected)
    return next((attempt for attempt in tried if key and first_words(attempt.idea) == key), None)


def repeated_words(before: Attempt | None) -> str:
    """Return why an idea is refused, "" for a new one."""
    return f"the idea was tried in step {before.step}: {before.idea} -> {before.outcome}" if before else ""


def refusing(prompt: Prompt, reason: str, request: ProposalRequest) -> Prompt | None:
    """Return the same question with what was wrong with the last answer; None if the context is too small for it."""
    text = f"{prompt.text}\n## Refused\nYour answer was refused: {reason}. Answer again.\n"
    tokens = estimate_tokens(text)
    fits = not request.context_tokens or tokens <= request.context_tokens
    return Prompt(text, tokens, prompt.left_out) if fits else None


def author_of(call: Call) -> Author:
    """Return who wrote the kernel of an answer."""
    written = {AnsweredBy.PLAYBOOK: Author.PLAYBOOK, AnsweredBy.PERSON: Author.PERSON}
    return written.get(call.by, Author.MODEL) if call.by else Author.MODEL


def _is_tunable(request: ProposalRequest) -> bool:
    return request.base is not None and is_tunable(request.base.source)
