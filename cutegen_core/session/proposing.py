"""Ask the proposer for a step's candidate, and carry its questions to whoever answers them."""

from __future__ import annotations

import time
from dataclasses import replace

from cutegen_core.propose.model_port import ModelReply
from cutegen_core.propose.port import (
    Answer,
    Ask,
    Declined,
    Finished,
    Proposal,
    TriesSuite,
    Unparsed,
    WantsStudy,
)
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Gate, Limit
from cutegen_core.records.errors import BudgetError, StoppedError, UsageError
from cutegen_core.records.event import (
    AnsweredBy,
    Event,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepClosed,
)
from cutegen_core.records.trial import Stage, StageResult, StageStatus
from cutegen_core.session import alternatives, decisions, moves, request, studies, suites
from cutegen_core.session.writer import ReplyLine, TrialWatch, Writer
from cutegen_core.trajectory.grown import Grown
from cutegen_core.trajectory.state import Step, waits_at
from cutegen_core.trajectory.transitions import REPLACED

LOST_CALL = "the model was called and its answer was lost; the call may have been billed. Resume to ask again."


def propose(writer: Writer, step: Step) -> list[Event]:
    """Ask the proposer once; return what its answer comes to.

    Raises:
        StoppedError: a person stopped the model call or the study; what was known until then is recorded.
    """
    begun = time.monotonic()
    if writer.state.running_stage is None:
        writer.append(StageStarted(step.number, Stage.GENERATE))
    if step.study is not None:
        return studies.carry_out_in_step(writer, step.study, step, TrialWatch(writer))
    proposer = writer.tools.proposer(writer.state)
    answer = proposer.respond(request.build_request(writer.store, writer.state, writer.tools, step))
    if isinstance(answer, Ask):
        return _carry_prompt(writer, answer, step)
    recorded = alternatives.record(writer, answer, step)
    if recorded is not None:
        return recorded
    if isinstance(answer, TriesSuite):
        return [suites.try_suite(writer, answer, step, TrialWatch(writer))]
    if isinstance(answer, WantsStudy):
        return studies.carry_out_in_step(writer, answer.study, step, TrialWatch(writer))
    return _record_answer(writer, answer, step, time.monotonic() - begun)


def record_lost_call(writer: Writer) -> list[Event]:
    """Return the events of a call whose answer never arrived: charged in full, never repeated by itself."""
    step = writer.open_step
    call = step.calls[-1]
    nothing, used = writer.store.put(""), call.reserved_tokens
    answered = ModelAnswered(
        step.number, call.role, call.prompt, nothing, "lost", used, 0, True, error=LOST_CALL, cost=call.reserved_cost
    )
    return [answered, StateChanged(SessionState.INTERRUPTED, LOST_CALL)]


def _carry_prompt(writer: Writer, ask: Ask, step: Step) -> list[Event]:
    """Carry the prompt to the model; without one, wait for a person to carry it, or take what the playbook offers."""
    if writer.state.settings.answers(ask.role) is AnsweredBy.PLAYBOOK:
        return [_offered(writer, ask, step)]
    prompt = writer.store.put(writer.state.prompt or ask.prompt + _sent_back(writer, ask, step))
    model = writer.tools.model(writer.state, ask.role)
    if waits_at(Gate.PROMPT, writer.state):
        return [GateOpened(step.number, Gate.PROMPT, note=ask.note, prompt=prompt, role=ask.role)]
    if model is None:
        note = f"carry the prompt to a model and paste its reply ({ask.note})"
        return [GateOpened(step.number, Gate.REPLY, note=note, prompt=prompt, role=ask.role)]
    if spent := moves.spent_time(writer.state):
        raise BudgetError(spent, Limit.MINUTES)
    call = model.plan(ask.role, writer.store.text(prompt), writer.state)
    writer.append(ModelCalled(step.number, ask.role, prompt, call.model, call.reserved_tokens, call.reserved_cost))
    reply = call.carry_out(ReplyLine(writer))
    events = _record_reply(writer, step, ask, prompt, reply)
    if reply.stopped:
        writer.append(*events)
        raise StoppedError(reply.error)
    return events


def _offered(writer: Writer, ask: Ask, step: Step) -> ModelAnswered:
    """Return the playbook's answer, in the form of a model's; it costs no tokens."""
    if not ask.offered:
        raise UsageError(f"the playbook has no answer for the role {ask.role}; let a model or a person answer it")
    put = writer.store.put
    return ModelAnswered(step.number, ask.role, put(ask.prompt), put(ask.offered), by=AnsweredBy.PLAYBOOK)


def _sent_back(writer: Writer, ask: Ask, step: Step) -> str:
    """Return what a prompt says of the answer that a person sent back, "" if there is none."""
    last = step.calls[-1] if step.calls else None
    if last is None or last.answer is None or last.role is not ask.role or last.dropped in ("", REPLACED):
        return ""
    answer = writer.store.text(last.answer.reply).strip()
    return f"\n## The person sent your last answer back\nThey say: {last.dropped}\n\nYour last answer was:\n{answer}\n"


def _record_reply(writer: Writer, step: Step, ask: Ask, prompt: str, reply: ModelReply) -> list[Event]:
    answered = ModelAnswered(
        step.number,
        ask.role,
        prompt,
        writer.store.put(reply.text),
        reply.finish,
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.estimated,
        reply.seconds,
        reply.error,
        by=writer.state.settings.answers(ask.role),
        cached_tokens=reply.cached_tokens,
        cost=reply.cost,
    )
    interrupted = bool(reply.error) and not reply.stopped
    return [answered, StateChanged(SessionState.INTERRUPTED, reply.error)] if interrupted else [answered]


def _record_answer(writer: Writer, answer: Answer, step: Step, seconds: float) -> list[Event]:
    match answer:
        case Proposal():
            source = writer.store.put(answer.source)
            generated = StageResult(Stage.GENERATE, StageStatus.PASSED, seconds + _model_seconds(step))
            proposed = Proposed(step.number, source, answer.author, answer.idea, answer.plan, step.base)
            return [proposed, StageEnded(step.number, generated)]
        case Unparsed():
            return _record_unparsed(writer, answer, step)
        case Declined(reason):
            return [GateOpened(step.number, Gate.INSTRUCTION, note=reason)]
        case Finished():
            return _finish(writer, answer, step)
        case Ask() | TriesSuite() | WantsStudy():
            raise AssertionError("carried out before it gets here")


def _record_unparsed(writer: Writer, answer: Unparsed, step: Step) -> list[Event]:
    """Keep the reply as a candidate that never gets past GENERATE, so that a person can see and mend it."""
    reply = writer.store.put(answer.reply)
    trial = request.unparsed_trial(writer.state, answer, reply)
    return [
        Proposed(step.number, reply, Author.MODEL, request.unparsed_idea(answer), "", step.base),
        StageEnded(step.number, trial.stages[0]),
        request.tried_event(writer.store, step.number, trial),
    ]


def _finish(writer: Writer, answer: Finished, step: Step) -> list[Event]:
    """Ask the person how to go on; in auto mode accept the best kernel, after its sweep, or stop without one."""
    state = writer.state
    if state.autonomy is not Autonomy.AUTO:
        return [GateOpened(step.number, Gate.INSTRUCTION, note=answer.reason)]
    closed = StepClosed(step.number, Outcome.UNANSWERED, answer.reason)
    if state.best is None:
        return [closed, StateChanged(SessionState.STOPPED, f"{answer.reason}; nothing passed")]
    if state.settings.tune and studies.is_due(writer):
        return [closed, moves.begin_last_sweep(state)]
    chosen = answer.choice if state.passed(answer.choice) else state.best
    acceptance = decisions.accept_by_policy(chosen, state.meaning_seq)
    return [closed, *decisions.consequences(replace(state, steps=Grown()), acceptance, writer.store.put)]


def _model_seconds(step: Step) -> float:
    return sum(call.answer.seconds for call in step.calls if call.answer)
