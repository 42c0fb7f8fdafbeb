"""CuTeGen's strategy: one evolving kernel, one idea a step, always from the best.

1. SEED: no kernel yet, ask for the simplest correct one.
2. REPAIR: the base failed; a diagnosis of its own, then the smallest change. The idea stays, it is the kernel's intent.
3. OPTIMISE: one idea from the menu, named before it is written; a repeated one is refused and asked again once.
4. TUNE: when the menu is done, sweep the parameters the kernel declares.
5. Finished: nothing left, the model says so, or several steps in a row brought nothing.
"""

from __future__ import annotations

import re

from cutegen_core.candidate import Author
from cutegen_core.event import Role
from cutegen_core.proposer import Answer, Ask, Call, Finished, Proposal, ProposalRequest, Sweep, Unparsed
from cutegen_core.strategies import prompting
from cutegen_core.strategies.menus import MenuItem, done_keys, idea_key, menu, open_items
from cutegen_core.strategies.parsing import NotParsed, parse_reply
from cutegen_core.strategies.workload_class import classify
from cutegen_core.trial import Status

FRUITLESS_LIMIT = 6
"""Steps in a row without a promotion after which the strategy gives up."""

_IDEA = re.compile(r"^[\s*_#>-]*idea[\s*_]*:[\s*_]*(.+?)[\s*_]*$", re.IGNORECASE | re.MULTILINE)
_DONE = re.compile(r"^\s*`?DONE\b:?\s*(.*?)`?\s*$", re.MULTILINE)


class CutegenStrategy:
    """Asks a model, or a person who carries the prompts to one."""

    name = "cutegen"
    max_repairs = 3

    def respond(self, request: ProposalRequest) -> Answer:
        """See the module's text; a pure function of the request."""
        if request.base is not None and request.base_trial is not None and not request.base_trial.passed:
            return self._repair(request)
        if not request.calls:
            return self._first_question(request)
        return self._read(request.calls[-1], request)

    def _first_question(self, request: ProposalRequest) -> Answer:
        if request.base is None:
            return _ask(Role.PROPOSER, prompting.seed(request))
        if not request.instruction:
            over = self._over(request)
            if over is not None:
                return over
        return _ask(Role.PROPOSER, prompting.optimise(request))

    def _over(self, request: ProposalRequest) -> Answer | None:
        """The sweep and then the end, when there is nothing left to ask the model."""
        items = menu(classify(request.graph), request.device.arch)
        tail = request.attempts[-FRUITLESS_LIMIT:]
        fruitless = len(tail) == FRUITLESS_LIMIT and not any(a.promoted for a in tail)
        if open_items(request.attempts, items) and not fruitless:
            return None
        if not any(a.idea.startswith("tune") for a in request.attempts):
            return Sweep("the ideas are done: sweep the declared parameters")
        return Finished("the menu is done" if not fruitless else f"{FRUITLESS_LIMIT} steps in a row brought nothing")

    def _repair(self, request: ProposalRequest) -> Answer:
        if not request.calls:
            return _ask(Role.DIAGNOSIS, prompting.diagnose(request))
        if len(request.calls) == 1:
            return _ask(Role.REPAIR, prompting.repair(request, request.calls[0].reply.strip()))
        return self._proposal(request.calls[-1], request, repeats_allowed=True)

    def _read(self, call: Call, request: ProposalRequest) -> Answer:
        done = _DONE.search(call.reply)
        if done and request.base is not None and "/* cutegen" not in call.reply:
            tuned = any(a.idea.startswith("tune") for a in request.attempts)
            return Finished(f"the model is done: {done[1]}") if tuned else Sweep(f"the model is done: {done[1]}")
        return self._proposal(call, request, repeats_allowed=bool(request.instruction) or request.base is None)

    def _proposal(self, call: Call, request: ProposalRequest, *, repeats_allowed: bool) -> Answer:
        base = request.base.source if request.base else None
        parsed = parse_reply(call.reply, base)
        if isinstance(parsed, NotParsed):
            cut = " The reply was cut off at the token limit." if call.finish in ("length", "cut") else ""
            return Unparsed(call.reply, parsed.reason + cut, parsed.patch_failed)
        if base is not None and parsed.source.strip() == base.strip():
            return Unparsed(call.reply, "the reply is the same code again: nothing was changed")
        changed = [region for region in prompting.locked_regions(base or "") if region not in parsed.source]
        if changed:
            return Unparsed(call.reply, f"the reply changes a locked region:\n{changed[0]}")
        mending = request.base_trial is not None and not request.base_trial.passed
        idea = (request.base.idea if mending and request.base else "") or _idea(parsed.plan, parsed.source)
        repeated = None if repeats_allowed else _repeated(idea, request)
        if repeated:
            return self._refuse(repeated, call, request)
        return Proposal(parsed.source, Author.MODEL, idea or "unnamed idea", parsed.plan)

    def _refuse(self, key: str, call: Call, request: ProposalRequest) -> Answer:
        """A repeated idea is asked again once, then it counts as a reply without a kernel."""
        reason = f"the idea {key!r} was tried before; see what was tried"
        if len(request.calls) > 1:
            return Unparsed(call.reply, reason)
        left = ", ".join(item.key for item in open_items(request.attempts, _menu(request))) or "one of your own"
        return Ask(
            Role.PROPOSER, f"{call.prompt}\n## Refused\nYour answer was refused: {reason}. Choose another: {left}.\n"
        )


def _ask(role: Role, prompt: prompting.Prompt) -> Ask:
    note = f"about {prompt.tokens} tokens"
    return Ask(role, prompt.text, f"{note}; left out: {', '.join(prompt.left_out)}" if prompt.left_out else note)


def _menu(request: ProposalRequest) -> tuple[MenuItem, ...]:
    return menu(classify(request.graph), request.device.arch)


def _repeated(idea: str, request: ProposalRequest) -> str | None:
    """The key of an idea that was already taken to a verdict, or None."""
    items = _menu(request)
    key = idea_key(idea, items) if idea else ""
    tried = done_keys([a for a in request.attempts if a.status is not Status.UNPARSED], items)
    return key if key and key in tried else None


def _idea(plan: str, source: str) -> str:
    """What the reply says it tries: its Idea line, else the kernel file's own `idea`."""
    named = _IDEA.search(plan)
    if named:
        return named[1][:160]
    in_file = re.search(r'^\s*idea\s*=\s*"([^"\n]{1,160})"', source, re.MULTILINE)
    return in_file[1] if in_file else ""
