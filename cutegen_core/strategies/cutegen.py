"""CuTeGen's strategy: one evolving kernel, one idea per step, from the best."""

from __future__ import annotations

from cutegen_core.candidate import Author
from cutegen_core.event import Role
from cutegen_core.parsing import NotParsed, parse_reply
from cutegen_core.prompting import propose_prompt
from cutegen_core.proposer import Answer, Ask, Proposal, ProposalRequest, Unparsed


class CutegenStrategy:
    """Asks a model, or a person who carries the prompt to one."""

    name = "cutegen"
    max_repairs = 3

    def respond(self, request: ProposalRequest) -> Answer:
        """One prompt per step; the reply holds a kernel file or changes to the current one."""
        if not request.calls:
            return Ask(Role.PROPOSER, propose_prompt(request))
        reply = request.calls[-1].reply
        parsed = parse_reply(reply, request.base.source if request.base else None)
        if isinstance(parsed, NotParsed):
            return Unparsed(reply, parsed.reason)
        return Proposal(parsed.source, Author.MODEL, _first_line(parsed.plan) or "pasted reply", parsed.plan)


def _first_line(plan: str) -> str:
    lines = [line.strip("#*- \t") for line in plan.splitlines()]
    return next((line[:120] for line in lines if line), "")
