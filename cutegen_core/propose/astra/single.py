"""Astra's twin with one role: the same kernel, the same rounds, one prompt that plans and codes, and no testing role.

The comparison of both shows what the separate roles are worth (`cutegen twin`).
"""

from __future__ import annotations

from cutegen_core.propose.astra import playbook_answers, prompting, rounds
from cutegen_core.propose.port import Answer, Declined, Proposal, ProposalRequest, Unparsed, Width
from cutegen_core.propose.prompting.rendering import Prompt
from cutegen_core.propose.replies.reading import find_done, find_idea, plan_text, read_kernel
from cutegen_core.records.event import AnsweredBy, Role


class SingleAgentStrategy:
    """The strategy with one role.

    Args:
        answered_by: who answers it.
    """

    name = "astra-single"

    def __init__(self, answered_by: AnsweredBy) -> None:
        self._by_playbook = answered_by is AnsweredBy.PLAYBOOK
        self.max_repairs = 0 if self._by_playbook else rounds.MAX_REPAIRS

    def width(self, done: int) -> Width:
        """Return one: a plan is coded once."""
        return Width()

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the next answer; a pure function of the request."""
        begun = rounds.begin(request)
        if begun is not None:
            return begun
        request = rounds.with_base(request)
        mending = rounds.is_mending(request)
        if mending and self._by_playbook:
            return Declined(rounds.CANNOT_MEND)
        ended = None if mending else rounds.over(request)
        if ended is not None:
            return ended
        prompt = prompting.mending(request) if mending else prompting.single(request)
        return self._read(request, prompt, mending=mending) if request.calls else self._ask(request, prompt)

    def _ask(self, request: ProposalRequest, prompt: Prompt) -> Answer:
        if not self._by_playbook:
            return prompt.ask(Role.PROPOSER)
        try:
            planned = playbook_answers.plan(request)
        except LookupError as unknown:
            return Declined(str(unknown.args[0]))
        code = "" if find_done(planned) is not None else playbook_answers.code(request, planned)
        return prompt.ask(Role.PROPOSER, f"{planned}\n{code}")

    def _read(self, request: ProposalRequest, prompt: Prompt, *, mending: bool) -> Answer:
        """Return the kernel of the last answer; ask once more where it repeats an idea or holds no usable kernel."""
        call = request.calls[-1]
        parsed = read_kernel(call, request)
        done = find_done(call.reply)
        if isinstance(parsed, Unparsed) and not parsed.patch_failed and done is not None and not mending:
            return Declined(done) if request.instruction else rounds.end(done, request)
        before = None if mending or request.instruction else rounds.find_repeated(call.reply, request)
        reason = parsed.reason if isinstance(parsed, Unparsed) else rounds.repeated_words(before)
        again = rounds.refusing(prompt, reason, request)
        if reason and again and len(request.calls) < rounds.ANSWERS_EACH and not self._by_playbook:
            return again.ask(Role.PROPOSER)
        if isinstance(parsed, Unparsed):
            return parsed
        if reason:
            return Unparsed(call.reply, reason)
        assert request.base is not None
        idea = request.base.idea if mending else find_idea(parsed.plan, parsed.source)
        return Proposal(parsed.source, rounds.author_of(call), idea or "unnamed idea", plan_text(parsed))
