"""Astra: four roles make an existing kernel faster, one idea a step, always from the best.

1. The existing kernel itself is the first candidate. (`rounds.begin`)
2. TESTING, once: further workloads, trusted when the existing kernel passes them and its mutants fail. A suite that is
   not trusted goes back with the evidence, at most twice; after that the problem's own workloads judge.
3. PROFILING: what bounds the best kernel at each shape, from measured numbers.
4. PLANNING: one idea, for which shapes, effect and risk. A repeated one is refused once; after a second one the
   playbook's next idea is taken.
5. CODING: the plan's change. An answer without a usable kernel is sent back once. A kernel that failed is mended by the
   same role, with the evidence, a few times; then the next round goes on from the best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.problems import suite
from cutegen_core.propose.astra import faults, playbook_answers, prompting, rounds
from cutegen_core.propose.port import (
    Answer,
    Call,
    Declined,
    Proposal,
    ProposalRequest,
    TriesSuite,
    Unparsed,
    WantsStudy,
    Width,
)
from cutegen_core.propose.prompting.rendering import Prompt
from cutegen_core.propose.replies.reading import find_done, find_idea, plan_text, read_kernel
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.event import AnsweredBy, Role

SUITE_TRIES = 3
"""A suite, and two more where the evidence speaks against it."""
_REPEATED = "\n\nThe planner named no new idea, twice; this is the playbook's next one."


class AstraStrategy:
    """The strategy with four roles.

    Args:
        answers: who answers each role.
    """

    name = "astra"

    def __init__(self, answers: Mapping[Role, AnsweredBy]) -> None:
        self._answers = answers
        self.max_repairs = 0 if answers[Role.CODING] is AnsweredBy.PLAYBOOK else rounds.MAX_REPAIRS

    def width(self, done: int) -> Width:
        """Return one: a plan is coded once."""
        return Width()

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the next answer as the module's text says; a pure function of the request."""
        begun = rounds.begin(request)
        if begun is not None:
            return begun
        request = rounds.with_base(request)
        if rounds.is_mending(request):
            return self._mend(request)
        return self._test(request) or self._round(request)

    # ---- testing

    def _test(self, request: ProposalRequest) -> Answer | None:
        """Return what the suite still needs; None once it is settled."""
        if any(tried.trusted for tried in request.suites) or len(request.suites) >= SUITE_TRIES:
            return None
        answers = rounds.answers_of(request, Role.TESTING)
        checked = [tried for tried in request.suites if tried.step == len(request.attempts) + 1]
        if len(answers) > len(checked):
            return _read_suite(answers[-1], request)
        return self._ask(Role.TESTING, prompting.testing(request), lambda: playbook_answers.workloads(request))

    # ---- a round

    def _round(self, request: ProposalRequest) -> Answer:
        ended = rounds.over(request)
        if ended is not None:
            return ended
        looked = rounds.answers_of(request, Role.PROFILING)
        if not looked:
            return self._profile(request)
        plan = self._plan(request, looked[-1].reply)
        return self._code(request, plan) if isinstance(plan, str) else plan

    def _profile(self, request: ProposalRequest) -> Answer:
        if request.can_profile and request.profile is None and not request.profile_note:
            return WantsStudy(StudyKind.PROFILE, "the profiling role looks at the best kernel")
        return self._ask(Role.PROFILING, prompting.profiling(request), lambda: playbook_answers.profile(request))

    def _plan(self, request: ProposalRequest, profile: str) -> str | Answer:
        """Return the plan once there is one; until then what it needs, or the end."""
        answers = rounds.answers_of(request, Role.PLANNING)
        prompt = prompting.planning(request, profile)
        if not answers:
            return self._ask(Role.PLANNING, prompt, lambda: playbook_answers.plan(request))
        reply = _with_idea(answers[-1])
        done = find_done(reply)
        if done is not None and not find_idea(reply):
            return Declined(done) if request.instruction else rounds.end(done, request)
        refused = _refuse_plan(reply, request)
        if not refused:
            return reply.strip()
        again = rounds.refusing(prompt, refused, request)
        if again and len(answers) < rounds.ANSWERS_EACH:
            return self._ask(Role.PLANNING, again, lambda: playbook_answers.plan(request))
        return _from_playbook(request)

    def _code(self, request: ProposalRequest, plan: str) -> Answer:
        answers = rounds.answers_of(request, Role.CODING)
        return self._write(
            request, answers, prompting.coding(request, plan), find_idea(plan), plan,
            lambda: playbook_answers.code(request, plan),
        )  # fmt: skip

    def _mend(self, request: ProposalRequest) -> Answer:
        assert request.base is not None
        if self._answers[Role.CODING] is AnsweredBy.PLAYBOOK:
            return Declined(rounds.CANNOT_MEND)
        answers = rounds.answers_of(request, Role.CODING)
        return self._write(request, answers, prompting.mending(request), request.base.idea, "", lambda: "")

    def _write(
        self, request: ProposalRequest, answers: tuple[Call, ...], prompt: Prompt, idea: str, plan: str,
        offered: Callable[[], str],
    ) -> Answer:  # fmt: skip
        """Return the coding role's kernel; until there is one, the question to it."""
        if not answers:
            return self._ask(Role.CODING, prompt, offered)
        parsed = read_kernel(answers[-1], request)
        if not isinstance(parsed, Unparsed):
            words = "\n\n".join(part for part in (plan, plan_text(parsed)) if part)
            return Proposal(parsed.source, rounds.author_of(answers[-1]), idea or "unnamed idea", words)
        again = rounds.refusing(prompt, parsed.reason, request)
        if again and len(answers) < rounds.ANSWERS_EACH and answers[-1].by is not AnsweredBy.PLAYBOOK:
            return self._ask(Role.CODING, again, offered)
        return parsed

    def _ask(self, role: Role, prompt: Prompt, offered: Callable[[], str]) -> Answer:
        """Return the question to a role; where the playbook plays it, with its answer."""
        if self._answers[role] is not AnsweredBy.PLAYBOOK:
            return prompt.ask(role)
        try:
            return prompt.ask(role, offered())
        except LookupError as unknown:
            return Declined(str(unknown.args[0]))


def _read_suite(call: Call, request: ProposalRequest) -> TriesSuite:
    last = len(request.suites) + 1 >= SUITE_TRIES
    try:
        return TriesSuite(suite.with_suite(request.problem, call.reply), last=last)
    except ProblemError as error:
        return TriesSuite(None, str(error), last=last)


def _with_idea(call: Call) -> str:
    """Return a plan; what a person writes in their own words is their idea."""
    own_words = call.by is AnsweredBy.PERSON and not find_idea(call.reply) and find_done(call.reply) is None
    return f"Idea: {call.reply.strip()}" if own_words else call.reply


def _refuse_plan(reply: str, request: ProposalRequest) -> str:
    """Return why a plan is asked again, "" for one that can be carried out."""
    if not find_idea(reply):
        return faults.NO_IDEA
    before = None if request.instruction else rounds.find_repeated(reply, request)
    return rounds.repeated_words(before)


def _from_playbook(request: ProposalRequest) -> str | Answer:
    """Return the playbook's next idea as the plan, or the end if it has none."""
    try:
        offered = playbook_answers.plan(request)
    except LookupError as unknown:
        return Declined(str(unknown.args[0]))
    done = find_done(offered)
    if done is None:
        return offered.strip() + _REPEATED
    return rounds.end(f"the planner named no new idea, twice; {done}", request)
