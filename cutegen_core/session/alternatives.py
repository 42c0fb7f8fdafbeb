"""Write, try and rank the alternatives of a step: several candidates, of which the best is kept as the step's own.

1. They are written one after another, so that each is told what the others try.                      (`record`)
2. Each takes the stages, timed in turns with the best kernel, before any gate of the step opens.     (`trying`)
3. The one is kept that would be promoted, of these the fastest; without times the one with the lowest estimate; of
   failures the one that got furthest. It goes on as the step's candidate, with gates and a trial of its own: where
   times decide, it is timed once more, since the best of several measurements is often a lucky one.    (`keep`)
"""

from __future__ import annotations

import math
from dataclasses import replace

from cutegen_core.propose.port import Answer, Ask, Declined, Finished, Proposal, TriesSuite, Unparsed, WantsStudy
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import AlternativeProposed, AlternativeTried, Event, Proposed, StageEnded
from cutegen_core.records.trial import NO_KERNEL, Mark, Stage, StageResult, StageStatus, Status
from cutegen_core.session import promotion, request
from cutegen_core.session.writer import Writer
from cutegen_core.trajectory.state import Alternative, State, Step

_REACHED = (
    *NO_KERNEL, Status.REJECTED, Status.COMPILE_ERROR, Status.COMPILE_LIMIT, Status.LAUNCH_ERROR, Status.UNSUPPORTED,
)  # fmt: skip
"""Failures from the one that tells least on; a kernel that ran got further than all of these."""


def record(writer: Writer, answer: Answer, step: Step) -> list[Event] | None:
    """Return the events of an answer that is about one alternative; None where it is one to the whole step: there is
    one candidate only, nobody was asked yet, or no alternative holds a kernel."""
    asked = bool(step.alternatives) or any(call.alternative == step.alternative for call in step.calls)
    if step.width == 1 or not asked:
        return None
    match answer:
        case Proposal():
            key = writer.store.put(answer.source)
            return [_proposed(step, key, answer.idea, answer.plan)]
        case Unparsed():
            return _unparsed(writer, answer, step)
        case Declined(reason) | Finished(reason) | WantsStudy(_, reason):
            others = any(other.candidate for other in step.alternatives) or step.alternative < step.width
            return [_proposed(step, "", "no kernel", note=reason)] if others else None
        case Ask() | TriesSuite():
            return None


def give_up(step: Step, reason: str) -> list[Event]:
    """Return the events of an alternative that is not asked for any more; none where the step has no other."""
    wanted = step.width > 1 and any(other.candidate for other in step.alternatives)
    return [_proposed(step, "", "not asked for", note=reason)] if wanted else []


def untried(step: Step) -> Alternative | None:
    """Return the next alternative that has no verdict, or None."""
    return next((other for other in step.alternatives if other.candidate and other.tried is None), None)


def keep(state: State, step: Step) -> tuple[Event, ...]:
    """Return the events that make the best alternative, or the one that a recording went on with, the step's own."""
    written = (a for a in step.alternatives if a.candidate)
    best = step.with_key(step.keep) if step.keep else None
    best = best or min(written, key=lambda other: _rank(state, step, other))
    proposed = propose(step, best)
    seconds = sum(call.answer.seconds for call in step.calls if call.answer)
    assert best.tried is not None
    if best.tried.status not in NO_KERNEL:
        return proposed, StageEnded(step.number, StageResult(Stage.GENERATE, StageStatus.PASSED, seconds))
    stage = Stage.PATCH if best.tried.status is Status.PATCH_FAILED else Stage.GENERATE
    failed = StageResult(stage, StageStatus.FAILED, seconds, best.tried.status)
    return proposed, StageEnded(step.number, failed), best.tried


def propose(step: Step, chosen: Alternative) -> Proposed:
    """Return the event that makes an alternative the step's own candidate."""
    return Proposed(step.number, chosen.candidate, Author.MODEL, chosen.idea, chosen.plan, chosen.parent)


def _rank(state: State, step: Step, other: Alternative) -> tuple[bool, bool, float, int]:
    """Return what orders alternatives: passed, would be promoted, its time or estimate, and who came first."""
    assert other.tried is not None
    if other.tried.status is not Status.PASSED:
        reached = _REACHED.index(other.tried.status) if other.tried.status in _REACHED else len(_REACHED)
        return True, True, -reached, other.number
    as_step = replace(step, candidate=other.candidate, author=Author.MODEL, tried=other.tried)
    return False, bool(promotion.not_faster(state, as_step)), _took(other), other.number


def _took(other: Alternative) -> float:
    """Return an alternative's time in µs, or where nothing is timed its estimate; infinity where it has neither."""
    tried = other.tried
    if tried is None:
        return math.inf
    if tried.latency_ms is not None and Mark.NOT_TIMED not in tried.marks:
        return 1000 * tried.latency_ms
    return tried.estimate_us if tried.estimate_us is not None else math.inf


def _proposed(step: Step, candidate: str, idea: str, plan: str = "", note: str = "") -> AlternativeProposed:
    model = next((call.model for call in reversed(step.calls) if call.alternative == step.alternative), "")
    return AlternativeProposed(step.number, step.alternative, candidate, idea, plan, step.base, model, note)


def _unparsed(writer: Writer, answer: Unparsed, step: Step) -> list[Event]:
    """Keep the reply in the kernel's place, with its verdict."""
    reply = writer.store.put(answer.reply)
    trial = request.unparsed_trial(writer.state, answer, reply)
    tried = request.tried_event(writer.store, step.number, trial)
    proposed = _proposed(step, reply, request.unparsed_idea(answer))
    return [proposed, AlternativeTried(step.number, step.alternative, tried)]
