"""CuTeGen's strategy: one evolving kernel, one idea a step, always from the best.

1. SEED: no kernel yet, ask for the simplest correct one.
2. REPAIR: the base failed; a diagnosis of its own, then the smallest change. The idea stays, it is the kernel's intent.
3. OPTIMISE: one idea from the menu, named before it is written; a repeated one is refused and asked again once.
4. TUNE: when the menu is done, sweep the parameters the kernel declares.
5. Finished: nothing left, the model says so, or several steps in a row brought nothing.
"""

from __future__ import annotations

import re

from cutegen_core.propose.cutegen import prompting
from cutegen_core.propose.cutegen.menus import done_keys, idea_key, menu, open_items
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.families.family import MenuItem
from cutegen_core.propose.model_error import ModelErrorKind
from cutegen_core.propose.port import (
    Answer,
    Ask,
    Call,
    Declined,
    Finished,
    Proposal,
    ProposalRequest,
    Unparsed,
    WantsStudy,
)
from cutegen_core.propose.replies.parsing import UnparsedReply, parse_reply
from cutegen_core.propose.replies.reply_text import extract_answer
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.candidate import Author, content_key
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.event import Role
from cutegen_core.records.trial import Status

FRUITLESS_LIMIT = 6
"""Steps in a row without a promotion after which the strategy gives up."""

# Each of these looks at a line once: a reply of a million line ends costs milliseconds.
_IDEA = re.compile(r"^[ \t*_#>-]*idea[ \t*_]*:(.*[^\s*_`].*)$", re.IGNORECASE | re.MULTILINE)
_IDEA_IN_FILE = re.compile(r'^[ \t]*idea[ \t]*=[ \t]*"([^"\n]{1,160})"', re.MULTILINE)
_DONE = re.compile(r"^[ \t*_`>]*DONE\b[*_ \t]*:?(.*)$", re.MULTILINE)
_DIAGNOSIS_CHARACTERS = 4000
_TAIL_CHARACTERS = 40
_CUT = ("length", "cut", ModelErrorKind.TRUNCATED_STREAM, ModelErrorKind.BAD_ANSWER)
_CUT_OFF = "The reply was cut off (its token limit, or a connection that broke)"


class CutegenStrategy:
    """A strategy that asks a model, or a person who carries the prompts to one."""

    name = "cutegen"
    max_repairs = 3

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the next answer as the module's text says; a pure function of the request."""
        if request.base is not None and request.base_trial is not None and not request.base_trial.passed:
            return self._repair(request)
        if not request.calls:
            return self._first_question(request)
        return self._read(request.calls[-1], request)

    def _first_question(self, request: ProposalRequest) -> Answer:
        over = None if request.instruction else self._over(request)
        if over is not None:
            return over
        if request.base is None:
            return _ask(Role.PROPOSER, prompting.seed(request))
        wanted = prompting.profile_wanted(request)
        if wanted and request.can_profile and request.profile is None and not request.profile_note:
            return WantsStudy(StudyKind.PROFILE, wanted)
        return _ask(Role.PROPOSER, prompting.optimise(request))

    def _over(self, request: ProposalRequest) -> Answer | None:
        """Return the sweep and then the end, if there is nothing left to ask the model."""
        items = menu(classify(request.graph), request.device.arch)
        tail = request.attempts[-FRUITLESS_LIMIT:]
        fruitless = len(tail) == FRUITLESS_LIMIT and not any(a.promoted for a in tail)
        if not fruitless and (request.base is None or open_items(request.attempts, items)):
            return None
        return _end(f"{FRUITLESS_LIMIT} steps in a row brought nothing" if fruitless else "the menu is done", request)

    def _repair(self, request: ProposalRequest) -> Answer:
        if not request.calls:
            return _ask(Role.DIAGNOSIS, prompting.diagnose(request))
        if len(request.calls) == 1:
            return _ask(Role.REPAIR, prompting.repair(request, _diagnosis(request.calls[0].reply)))
        return self._proposal(request.calls[-1], request, repeats_allowed=True)

    def _read(self, call: Call, request: ProposalRequest) -> Answer:
        answer = self._proposal(call, request, repeats_allowed=bool(request.instruction) or request.base is None)
        done = _DONE.search(extract_answer(call.reply) or "")
        if not done or request.base is None or not isinstance(answer, Unparsed) or answer.patch_failed:
            return answer
        reason = f"the model is done: {done[1].strip(' `*_') or 'it gives no reason'}"
        return Declined(reason) if request.instruction else _end(reason, request)

    def _proposal(self, call: Call, request: ProposalRequest, *, repeats_allowed: bool) -> Answer:
        base = request.base.source if request.base else None
        parsed = parse_reply(call.reply, base)
        if isinstance(parsed, UnparsedReply):
            cut = f" {_CUT_OFF}." if call.finish in _CUT else ""
            return Unparsed(call.reply, parsed.reason + cut, parsed.patch_failed)
        if call.finish in _CUT and call.reply.rstrip().endswith(parsed.source.rstrip()[-_TAIL_CHARACTERS:]):
            return Unparsed(call.reply, f"{_CUT_OFF}, in the middle of the kernel file")
        if base is not None and parsed.source.strip() == base.strip():
            return Unparsed(call.reply, "the reply is the same code again: nothing was changed")
        kept = prompting.locked_regions(parsed.source)
        changed = [region for region in prompting.locked_regions(base or "") if region not in kept]
        if changed:
            return Unparsed(call.reply, f"the reply changes a locked region:\n{changed[0]}")
        key = content_key(parsed.source)
        before = [a for a in request.attempts if a.candidate == key and not request.instruction]
        if before:
            return Unparsed(call.reply, f"this very kernel was tried in step {before[-1].step}: {before[-1].outcome}")
        mending = request.base_trial is not None and not request.base_trial.passed
        idea = (request.base.idea if mending and request.base else "") or _idea(parsed.plan, parsed.source)
        repeated = None if repeats_allowed else _repeated(idea, request)
        if repeated:
            return self._refuse(repeated, call, request)
        plan = "\n".join([parsed.plan, *(f"Careful: {warning}" for warning in parsed.warnings)]).strip()
        return Proposal(parsed.source, Author.MODEL, idea or "unnamed idea", plan)

    def _refuse(self, key: str, call: Call, request: ProposalRequest) -> Answer:
        """Refuse a repeated idea: ask again once, then count it as a reply without a kernel."""
        reason = f"the idea {key!r} was tried before; see what was tried"
        if len(request.calls) > 1:
            return Unparsed(call.reply, reason)
        left = ", ".join(item.key for item in open_items(request.attempts, _menu(request))) or "one of your own"
        prompt = f"{call.prompt}\n## Refused\nYour answer was refused: {reason}. Choose another: {left}.\n"
        return Ask(Role.PROPOSER, prompt, f"about {estimate_tokens(prompt)} tokens")


def _end(reason: str, request: ProposalRequest) -> Answer:
    """Return the sweep, once; then the end. Without a kernel there is nothing to sweep."""
    tuned = any(a.idea.startswith("tune") for a in request.attempts)
    return (
        Finished(reason)
        if tuned or request.base is None
        else WantsStudy(StudyKind.SWEEP, f"{reason}: sweep the declared parameters")
    )


def _diagnosis(reply: str) -> str:
    """Return the answer without its thinking, cut to the length that a repair needs."""
    text = (extract_answer(reply) or "").strip()
    return text if len(text) <= _DIAGNOSIS_CHARACTERS else f"{text[:_DIAGNOSIS_CHARACTERS]}\n(cut off here)"


def _ask(role: Role, prompt: prompting.Prompt) -> Ask:
    note = f"about {prompt.tokens} tokens"
    return Ask(role, prompt.text, f"{note}; left out: {', '.join(prompt.left_out)}" if prompt.left_out else note)


def _menu(request: ProposalRequest) -> tuple[MenuItem, ...]:
    return menu(classify(request.graph), request.device.arch)


def _repeated(idea: str, request: ProposalRequest) -> str | None:
    """Return the key of an idea that was already taken to a verdict, or None."""
    items = _menu(request)
    key = idea_key(idea, items) if idea else ""
    tried = done_keys([a for a in request.attempts if a.status is not Status.UNPARSED], items)
    return key if key and key in tried else None


def _idea(plan: str, source: str) -> str:
    """Return what the reply says it tries: its Idea line, else the kernel file's own `idea`."""
    named = _IDEA.search(plan) or _IDEA_IN_FILE.search(source)
    line = "".join(letter for letter in named[1] if letter.isprintable()) if named else ""
    return line.strip(" *_`")[:160]
