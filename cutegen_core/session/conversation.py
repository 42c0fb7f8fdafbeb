"""Find the exchange that the next question may stand behind: it wrote the kernel that the step goes on from, or made a
change of it that was not taken.

There is none where the kernel is another's or was changed since (a person's edit, a sweep, a branch from an earlier
step), where a person changed or refused a prompt or reply, where the model was asked twice in that step (its last reply
does not hold the whole change), where a step has several candidates, and where several models answer.
"""

from __future__ import annotations

from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Former
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.propose.turns import turns
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import AnsweredBy, Outcome, Role
from cutegen_core.records.trial import NO_KERNEL
from cutegen_core.trajectory.state import Exchange, State, Step
from cutegen_core.trajectory.store import Store

_NOT_TAKEN = (Outcome.KEPT, Outcome.REJECTED)


def former(store: Store, state: State, model: Model | None, step: Step) -> Former | None:
    """Return the exchange that the step's next question may stand behind, None where it begins afresh."""
    if not state.settings.effort.conversation or model is None or step.width > 1:
        return None
    call, asked = _exchange(state, step), model.only_one(state)
    if call is None or call.answer is None or asked is None or call.model != asked.model:
        return None
    prompt, reply = store.text(call.prompt), store.text(call.answer.reply)
    return Former(prompt, reply, asked.cached_price, _keeps_replies(store, state))


def _keeps_replies(store: Store, state: State) -> bool:
    """Return False where the server's last count of a conversation ends before the reply in it.

    It keeps none where the model thinks: the thinking that stood before a reply is not sent again.
    """
    for call in (call for step in reversed(state.steps) for call in reversed(_answered(step))):
        said = turns(store.text(call.prompt))
        if call.answer and call.answer.cached_tokens and len(said) > 1:
            sizes = [estimate_tokens(turn.text) for turn in said]
            halfway = sum(sizes[:-2]) + sizes[-2] / 2
            return call.answer.cached_tokens / call.answer.prompt_tokens > halfway / sum(sizes)
    return True


def _exchange(state: State, step: Step) -> Exchange | None:
    """Return the diagnosis of this step, else the exchange of the step before, where that was about the base."""
    own, before = _answered(step), state.numbered(step.number - 1)
    if own:
        return own[-1] if own[-1].role is Role.DIAGNOSIS and _is_unchanged(own) else None
    if before is None or not _is_about(before, step.base):
        return None
    wrote = [call for call in _answered(before) if call.role is not Role.DIAGNOSIS]
    alone = before.author is Author.MODEL and before.width == 1 and len(wrote) == 1
    return wrote[0] if alone and _is_unchanged(_answered(before)) else None


def _is_about(before: Step, base: str | None) -> bool:
    """Return whether the step wrote this kernel, or changed it in a way that was not taken."""
    if before.status in NO_KERNEL or before.candidate is None:
        return False
    return base == (before.base if before.outcome in _NOT_TAKEN else before.candidate)


def _answered(step: Step) -> list[Exchange]:
    return [call for call in step.calls if call.answer and not call.answer.error]


def _is_unchanged(calls: list[Exchange]) -> bool:
    """Return whether a model answered these prompts as they were written, and a person took the replies as they are."""
    by_model = all(call.answer and call.answer.by is AnsweredBy.LLM for call in calls)
    return by_model and not any(call.edited or call.dropped for call in calls)
