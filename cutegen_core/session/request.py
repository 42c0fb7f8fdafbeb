"""Translate between a session's state and its tools: the proposer's request, a candidate, the event of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen_core.evaluate.evidence.cost import WORTH_TELLING
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.evaluate.variant import summarize_trial
from cutegen_core.propose.port import Attempt, BenchmarkShape, Call, ProposalRequest, Unparsed
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.decision import StudyKind
from cutegen_core.records.event import Outcome, Tried
from cutegen_core.records.performance import BEST, Profile
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import NO_KERNEL, Stage, StageResult, StageStatus, Status, Trial
from cutegen_core.records.wording import micros
from cutegen_core.session import conversation
from cutegen_core.session.writer import SessionTools
from cutegen_core.trajectory.state import Exchange, State, Step
from cutegen_core.trajectory.store import Store


def build_request(store: Store, state: State, tools: SessionTools, step: Step) -> ProposalRequest:
    """Return everything the proposer may look at for this step."""
    evaluator, model = tools.evaluator(state), tools.model(state)
    timed = evaluator.problem.with_role(WorkloadRole.BENCHMARK) or evaluator.problem.workloads[-1:]
    workload = timed[-1]
    untimed = [w for w in evaluator.problem.workloads if w not in timed]
    own = [call for call in step.calls if call.alternative == step.alternative]
    calls = [_call(store, call) for call in own if call.answer and not call.answer.error]
    previous = [s for s in state.steps if s.outcome is not None]
    base = state.step_of(step.base) if step.base else None
    return ProposalRequest(
        problem=evaluator.problem,
        signature=evaluator.signature(workload),
        graph=evaluator.graph(workload),
        device=evaluator.device,
        base=load_candidate(store, state, step.base) if step.base else None,
        attempts=tuple(_attempt(s) for s in previous),
        base_trial=_trial_of(store, base) if base else None,
        failure=_trial_of(store, previous[-1]) if step.repair else None,
        instruction=step.instruction,
        standing=state.standing,
        context_tokens=model.context_tokens(state) if model else 0,
        can_profile=evaluator.can_profile,
        profile=_profile_of(store, state, step.base),
        profile_note=_profile_note(state, step.base),
        peaks=evaluator.peaks,
        calls=tuple(call for call in calls if not call.dropped),
        sent_back=calls[-1] if calls and calls[-1].dropped else None,
        shapes=tuple(BenchmarkShape(w, evaluator.signature(w)) for w in timed),
        others=tuple((evaluator.graph(w), evaluator.signature(w)) for w in untimed),
        bears=evaluator.bears() if evaluator.problem.existing else (),
        suites=state.suites,
        executor=state.settings.executor,
        failed_reply=_failed_reply(store, previous[-1]) if step.repair else "",
        untimed=tuple(BenchmarkShape(w, evaluator.signature(w)) for w in untimed),
        effort=state.settings.effort,
        alternative=step.alternative,
        others_try=tuple(other.idea for other in step.alternatives if other.candidate),
        swept=state.swept(step.base),
        before_sweep=_before_sweep(store, previous),
        former=conversation.former(store, state, model, step),
    )


def load_candidate(store: Store, state: State, key: str) -> Candidate:
    """Return the candidate under that key, with its step's author, parent and idea."""
    step, other = state.step_of(key), state.alternative_of(key)
    if step is None and other is not None:
        return Candidate(store.text(key), Author.MODEL, other.parent, other.idea)
    author = step.author if step and step.author else Author.IMPORT
    return Candidate(store.text(key), author, step.parent if step else None, step.idea if step else "")


def tried_event(store: Store, number: int, trial: Trial, *, acceptance: bool = False) -> Tried:
    """Return the event of a finished trial; the trial itself becomes a blob."""
    occupancy = trial.resources.occupancy if trial.resources else ()
    numbers = summarize_trial(trial)
    return Tried(
        number,
        trial.candidate,
        store.put(as_json.dump(trial)),
        trial.status,
        trial.message,
        registers=numbers.registers,
        spill_bytes=numbers.spill_bytes,
        smem_bytes=max((o.smem_bytes for o in occupancy), default=0),
        latency_ms=numbers.latency_ms,
        against_best=None if trial.cached else numbers.word,
        shapes=tuple(replace(s, against_best=None, ratio=None) if trial.cached else s for s in numbers.shapes),
        best_untimed="" if trial.cached else _best_untimed(trial),
        marks=trial.marks,
        acceptance=acceptance,
        estimate_us=trial.estimate.us if trial.estimate else None,
        bank_conflicts=max((each.conflicts for each in trial.resources.shared), default=1.0)
        if trial.resources
        else 1.0,
    )


def unparsed_trial(state: State, answer: Unparsed, reply: str) -> Trial:
    """Return the verdict on a reply without a kernel that could be tried; `reply` is its key."""
    status = Status.PATCH_FAILED if answer.patch_failed else Status.UNPARSED
    stage = Stage.PATCH if answer.patch_failed else Stage.GENERATE
    result = StageResult(stage, StageStatus.FAILED, 0.0, status)
    return Trial(reply, status, (result,), state.settings.executor, message=answer.reason)


def unparsed_idea(answer: Unparsed) -> str:
    """Return what a step is called whose reply holds no kernel."""
    return answer.idea or ("changes that do not apply" if answer.patch_failed else "reply without a kernel file")


def _best_untimed(trial: Trial) -> str:
    timed = overall(trial.performance)
    return next((u.reason for u in timed.untimed if u.contender == BEST), "") if timed else ""


def _trial_of(store: Store, step: Step) -> Trial | None:
    return store.record(Trial, step.verdict.trial) if step.verdict and step.verdict.trial else None


def _failed_reply(store: Store, step: Step) -> str:
    """Return the reply of a step that held no kernel, which is kept in the kernel's place; else ""."""
    return store.text(step.candidate) if step.candidate and step.status in NO_KERNEL else ""


def _before_sweep(store: Store, previous: Sequence[Step]) -> str:
    """Return the last reply of the step before, if that was a sweep which nobody sent back; else ""."""
    if not previous or not previous[-1].sweep or previous[-1].outcome not in (Outcome.PROMOTED, Outcome.KEPT):
        return ""
    calls = [call for call in previous[-1].calls if call.answer and not call.answer.error and not call.dropped]
    return store.text(calls[-1].answer.reply) if calls and calls[-1].answer else ""


def _profile_of(store: Store, state: State, candidate: str | None) -> Profile | None:
    found = state.study(StudyKind.PROFILE, candidate)
    return store.record(Profile, found.result) if found and found.result else None


def _profile_note(state: State, candidate: str | None) -> str:
    found = state.study(StudyKind.PROFILE, candidate)
    return found.message if found else ""


def _call(store: Store, call: Exchange) -> Call:
    answer = call.answer
    assert answer is not None
    prompt, reply = store.text(answer.prompt), store.text(answer.reply)
    return Call(answer.role, prompt, reply, answer.finish, answer.by, call.dropped)


def _attempt(step: Step) -> Attempt:
    outcome = step.memory or (f"{step.outcome}: {step.note}" if step.note else str(step.outcome))
    promoted = step.outcome is Outcome.PROMOTED
    rejected = step.outcome is Outcome.REJECTED
    shapes = step.verdict.shapes if step.verdict else ()
    return Attempt(
        step.number,
        step.idea,
        step.candidate or "",
        step.status,
        outcome,
        promoted,
        rejected,
        shapes,
        _cost(step, outcome),
        _took_us(step),
        sum(call.tokens for call in step.calls),
        _money(step),
    )


def _took_us(step: Step) -> float | None:
    tried = step.verdict if step.passed else None
    if tried is None:
        return None
    return 1000 * tried.latency_ms if tried.latency_ms is not None else tried.estimate_us


def _money(step: Step) -> float | None:
    costs = [call.cost for call in step.calls if call.model]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _cost(step: Step, outcome: str) -> str:
    """Return what a kernel takes: "12.1 µs" or "estimate 12.1 µs", with its resources; "" for one that did not pass."""
    tried = step.verdict
    if tried is None or not step.passed:
        return ""
    timed = [micros(1000 * tried.latency_ms)] if tried.latency_ms is not None else []
    guessed = [f"estimate {micros(tried.estimate_us)}"] if tried.estimate_us is not None and not timed else []
    guessed = [words for words in guessed if words not in outcome]
    spilled = [f"{tried.spill_bytes} B spilled"] if tried.spill_bytes else []
    lost = [f"served {tried.bank_conflicts:.3g}x as often as needed"] if tried.bank_conflicts >= WORTH_TELLING else []
    resources = [f"{tried.registers} registers", *spilled, " ".join([f"{tried.smem_bytes} B shared", *lost])]
    return ", ".join([*timed, *guessed, *resources])
