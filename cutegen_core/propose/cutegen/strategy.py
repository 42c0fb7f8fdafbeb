"""CuTeGen's strategy: one evolving kernel, one idea a step, always from the best.

1. SEED: no kernel yet, ask for the simplest correct one.
2. REPAIR: the base failed; the smallest change, after a diagnosis of its own where the evidence does not name the
   cause. The idea stays, it is the kernel's intent.
3. OPTIMISE: one idea from the menu, named before it is written; a repeated one is refused and asked again once.
4. TUNE: when the menu is done, sweep the parameters the kernel declares.
5. Finished: nothing left, the model says so, several steps in a row brought nothing, the best is near its bound, or a
   step is expected to cost more than it is worth.
A reply without a kernel is shown to the model and asked again once in the same step; blocks that fit are kept.
`switches` has the variants of it that an ablation compares.
"""

from __future__ import annotations

from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.propose import headroom
from cutegen_core.propose.cutegen import prompting
from cutegen_core.propose.cutegen.menus import done_keys, idea_key, open_items
from cutegen_core.propose.cutegen.switches import CUTEGEN, Switches, uses_cute
from cutegen_core.propose.families.family import MenuItem
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
    Width,
)
from cutegen_core.propose.prompting.rendering import quoted, said_since
from cutegen_core.propose.replies.reading import (
    changes_defaults_only,
    find_done,
    find_idea,
    idea_of,
    plan_text,
    read_kernel,
    was_cut,
)
from cutegen_core.propose.replies.reply_text import extract_answer
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.event import Role
from cutegen_core.records.trial import ExecutorKind, Status, Trial

FRUITLESS_LIMIT = 6
"""Steps in a row without a promotion after which the strategy gives up."""

_DIAGNOSIS_CHARACTERS = 4000
_ANSWERS_EACH = 2
_ONLY_THESE = (
    "Your other blocks fit and are kept. Give again only those that do not fit, against the kernel with the others."
)
_SWEEP_DOES_THAT = (
    "it changes declared values only, which is no promotion: the workbench's sweep tries them. Change the code"
)
_NOT_PLAIN = "it uses CuTe or CUTLASS, and kernels of this session are plain CUDA C++"
_UNEXPLAINED = (
    Status.INCORRECT_NUMERICAL, Status.NONDETERMINISTIC, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.SUSPECT,
)  # fmt: skip
"""Failures whose evidence may not name the cause; all others are repaired without a diagnosis, and so are wrong numbers
that are elements which the kernel never wrote."""


class CutegenStrategy:
    """A strategy that asks a model, or a person who carries the prompts to one.

    Args:
        width: alternatives of a step that repairs nothing.
    """

    name = "cutegen"

    def __init__(self, switches: Switches = CUTEGEN, width: int = 1) -> None:
        self._switches = switches
        self._width = width
        self.max_repairs = 3 if switches.refines else 0

    def width(self, done: int) -> Width:
        """Return the setting, for every step that repairs nothing."""
        return Width(self._width)

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the next answer as the module's text says; a pure function of the request."""
        if not self._switches.refines and request.attempts:
            return Finished("one call, one kernel: there is no refinement")
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
            return prompting.seed(request, self._switches).ask(Role.PROPOSER)
        wanted = prompting.profile_wanted(request, self._switches)
        if wanted and request.can_profile and request.profile is None and not request.profile_note:
            return WantsStudy(StudyKind.PROFILE, wanted)
        return prompting.optimise(request, self._switches).ask(Role.PROPOSER)

    def _over(self, request: ProposalRequest) -> Answer | None:
        """Return the sweep and then the end, if there is nothing left to ask the model; what said so before a sweep
        holds after it."""
        done = find_done(request.before_sweep)
        if done is not None:
            return Finished(_done(done))
        enough = headroom.reached(request) or headroom.too_dear(request)
        if enough:
            return _end(enough, request)
        tail = request.attempts[-FRUITLESS_LIMIT:]
        fruitless = len(tail) == FRUITLESS_LIMIT and not any(a.promoted for a in tail)
        goes_on = request.base is None or not self._switches.menus or self._open(request)
        if goes_on and not fruitless:
            return None
        return _end(f"{FRUITLESS_LIMIT} steps in a row brought nothing" if fruitless else "the menu is done", request)

    def _open(self, request: ProposalRequest) -> tuple[MenuItem, ...]:
        return open_items(request.attempts, prompting.items(request, self._switches))

    def _repair(self, request: ProposalRequest) -> Answer:
        assert request.base_trial is not None
        if not request.calls and not _explained(request.base_trial):
            return prompting.diagnose(request, self._switches).ask(Role.DIAGNOSIS)
        if request.calls and request.calls[-1].role is not Role.DIAGNOSIS:
            return self._proposal(request.calls[-1], request, repeats_allowed=True)
        diagnosis = _diagnosis(request.calls[-1].reply) if request.calls else ""
        return prompting.repair(request, diagnosis, self._switches).ask(Role.REPAIR)

    def _read(self, call: Call, request: ProposalRequest) -> Answer:
        done = find_done(call.reply)
        parsed = read_kernel(call, request)
        if done is None or request.base is None or not isinstance(parsed, Unparsed) or parsed.patch_failed:
            return self._proposal(call, request, repeats_allowed=bool(request.instruction) or request.base is None)
        return Declined(_done(done)) if request.instruction else _end(_done(done), request)

    def _proposal(self, call: Call, request: ProposalRequest, *, repeats_allowed: bool) -> Answer:
        parsed = read_kernel(call, request)
        if isinstance(parsed, Unparsed):
            return self._ask_again(parsed, call, request)
        if self._switches.plain_cuda and uses_cute(parsed.source):
            return self._ask_again(Unparsed(call.reply, _NOT_PLAIN, idea=idea_of(request)), call, request)
        mending = request.base_trial is not None and not request.base_trial.passed
        if not mending and _only_values(parsed.source, request):
            return self._ask_again(Unparsed(call.reply, _SWEEP_DOES_THAT, idea=idea_of(request)), call, request)
        named = find_idea(parsed.plan) or idea_of(request) or find_idea("", parsed.source)
        idea = (request.base.idea if mending and request.base else "") or named
        repeated = None if repeats_allowed else self._repeated(idea, request)
        if repeated:
            return self._refuse(repeated, call, request)
        return Proposal(parsed.source, Author.MODEL, idea or "unnamed idea", plan_text(parsed))

    def _ask_again(self, parsed: Unparsed, call: Call, request: ProposalRequest) -> Answer:
        """Ask again once, with the reply where the context has room for it; then it is a reply without a kernel."""
        if (
            not self._switches.refines
            or was_cut(call)
            or sum(other.role is call.role for other in request.calls) >= _ANSWERS_EACH
        ):
            return parsed
        what = _ONLY_THESE if parsed.misfits else "Answer again, in the form above."
        why = f"## Your answer could not be used\n{parsed.reason}\n"
        said = quoted(parsed.misfits, "They were:") if parsed.misfits else quoted(call.reply)
        questions = (_behind(call, request, f"{why}{shown}\n{what}") for shown in (f"{said}\n", ""))
        return next((ask for ask in questions if ask is not None), parsed)

    def _refuse(self, key: str, call: Call, request: ProposalRequest) -> Answer:
        """Refuse a repeated idea: ask again once, then count it as a reply without a kernel."""
        reason = f"the idea {key!r} was tried before; see what was tried"
        failed = Unparsed(call.reply, reason, idea=idea_of(request))
        if len(request.calls) > 1:
            return failed
        left = ", ".join(item.key for item in self._open(request)) or "one of your own"
        refused = f"## Refused\nYour answer was refused: {reason}. Choose another: {left}."
        return _behind(call, request, refused) or failed

    def _repeated(self, idea: str, request: ProposalRequest) -> str | None:
        """Return the key of an idea that was already taken to a verdict, or None."""
        items = prompting.items(request, self._switches)
        key = idea_key(idea, items) if idea else ""
        return key if key and key in done_keys(request.attempts, items) else None


def _behind(call: Call, request: ProposalRequest, more: str) -> Ask | None:
    """Return a question once more with what the person said since and more text; None if the context is too small."""
    prompt = f"{call.prompt}\n{said_since(call.prompt, request)}{more}\n"
    tokens = estimate_tokens(prompt)
    fits = not request.context_tokens or tokens <= request.context_tokens
    return Ask(call.role, prompt, f"about {tokens} tokens") if fits else None


def _only_values(source: str, request: ProposalRequest) -> bool:
    """Return whether a kernel changes declared values only, which without a GPU nothing can judge but the sweep."""
    blind = request.executor is not ExecutorKind.GPU and not request.instruction
    return blind and request.base is not None and changes_defaults_only(request.base.source, source)


def _done(reason: str) -> str:
    return f"the model is done: {reason}"


def _end(reason: str, request: ProposalRequest) -> Answer:
    """Return the sweep of the best, once; then the end. Without parameters there is nothing to sweep."""
    if request.swept or request.base is None or not is_tunable(request.base.source):
        return Finished(reason)
    return WantsStudy(StudyKind.SWEEP, f"{reason}: sweep the declared parameters")


def _explained(trial: Trial) -> bool:
    """Return whether the evidence names the cause, so that a diagnosis of its own would only repeat it."""
    if trial.status is not Status.INCORRECT_NUMERICAL:
        return trial.status not in _UNEXPLAINED
    failed = trial.correctness.first_failure if trial.correctness else None
    wrong = [each for each in failed.comparisons if each.wrong] if failed else []
    return bool(wrong) and all(each.unwritten for each in wrong)


def _diagnosis(reply: str) -> str:
    """Return the answer without its thinking, cut to the length that a repair needs."""
    text = (extract_answer(reply) or "").strip()
    return text if len(text) <= _DIAGNOSIS_CHARACTERS else f"{text[:_DIAGNOSIS_CHARACTERS]}\n(cut off here)"
