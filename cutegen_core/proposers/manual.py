"""The person as courier: the prompt is shown to copy into any model, and the reply is pasted back."""

from __future__ import annotations

from collections.abc import Callable

from cutegen_core.candidate import Author
from cutegen_core.parsing import NotParsed, parse_reply
from cutegen_core.prompting import propose_prompt
from cutegen_core.proposer import Answer, NeedsReply, Proposal, ProposalRequest, Unparsed


class ManualProposer:
    """Needs no key and no network."""

    name = "manual"
    paid = False

    def propose(self, request: ProposalRequest, progress: Callable[[str], None]) -> Answer:
        """Asks the person to carry the prompt."""
        return NeedsReply(propose_prompt(request))

    def read(self, reply: str, request: ProposalRequest) -> Answer:
        """The kernel file in the pasted reply."""
        parsed = parse_reply(reply, request.base.source if request.base else None)
        if isinstance(parsed, NotParsed):
            return Unparsed(reply, parsed.reason)
        return Proposal(
            source=parsed.source,
            author=Author.MODEL,
            idea=_first_line(parsed.plan) or "pasted reply",
            plan=parsed.plan,
            prompt=propose_prompt(request),
            reply=reply,
        )


def _first_line(plan: str) -> str:
    lines = [line.strip("#*- \t") for line in plan.splitlines()]
    return next((line[:120] for line in lines if line), "")
