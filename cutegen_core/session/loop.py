"""One problem's refinement: the loop, with any proposer and any executor.

1. Take the decisions that wait in the inbox.
2. IDLE: begin a step from the base (a person's edit opens its own step).
3. GENERATING: ask the proposer; its answer is a candidate, a question to the person, or the end.
4. PROPOSED: wait at the plan and diff gates that are on, then take the candidate through the stages.
5. EVALUATED: wait at the promotion gate, then promote what passed, or note the failure for the next step.
6. Accepting tests the candidate once more with fresh inputs.

Every event is durable before it is acted on, so a session killed at any point goes on where it was.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.propose.model_port import ModelReply
from cutegen_core.propose.port import Answer, Ask, Declined, Finished, Proposal, Sweep, Unparsed, WantsProfile
from cutegen_core.records.candidate import Author, content_key
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.errors import (
    BudgetError,
    MachineError,
    ProblemError,
    StaleDecisionError,
    StoppedError,
    UsageError,
)
from cutegen_core.records.event import (
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
    StepStarted,
    TrialStarted,
)
from cutegen_core.records.trial import Stage, StageResult, StageStatus, Status, Trial
from cutegen_core.session import decisions, promotion, request, studies
from cutegen_core.session.request import Bench
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.state import OF_THE_MOMENT, Phase, State, Step, waits_at
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import apply

LOST_CALL = "the model was called and its answer was lost; the call may have been billed. Resume to ask again."

LIVE_LINES = 200
"""Of what a stage says, only the last lines are kept, and only while it runs."""

WORKING = (SessionState.READY, SessionState.RUNNING)


class Session:
    """The writer of one session. Raises LeaseError when somebody else has written to it."""

    def __init__(self, store: Store, session: str, bench: Bench) -> None:
        self.id = session
        self._store = store
        self._bench = bench
        self.state = state_of(store, session)
        if self.state.lost_call and self.state.status in WORKING and not self.state.settings.imported:
            self._append(*self._lost())

    def run(self) -> State:
        """Goes on until somebody else has to act."""
        try:
            while self.take_decisions() or self.step():
                pass
        except StoppedError:
            self.take_decisions()
        except BudgetError as error:
            self._append(StateChanged(SessionState.EXHAUSTED, str(error)))
        except (MachineError, ProblemError, UsageError) as error:
            self._append(StateChanged(SessionState.INTERRUPTED, str(error)))
        return self.state

    def take_decisions(self) -> bool:
        """Answers everything in the inbox; True when something changed."""
        changed = False
        for waiting in self._store.waiting(self.id):
            try:
                decisions.check(self.state, waiting.decision)
            except StaleDecisionError as refusal:
                self._store.refuse(waiting.id, str(refusal))
                continue
            events = decisions.consequences(self.state, waiting.decision, self._store.put)
            self._append(*events, taking=waiting.id)
            changed = True
        return changed

    def step(self) -> bool:
        """One transition; False when the session waits for a decision, is over, or happened elsewhere."""
        if self.state.settings.imported:
            return False
        if self.state.profile_wanted:
            self._append(
                studies.profiled(self._store, self.state, self._bench, self.state.profile_wanted, _Watch(self))
            )
            return True
        if self.state.ablation_wanted:
            self._append(
                studies.ablated(self._store, self.state, self._bench, self.state.ablation_wanted, _Watch(self))
            )
            return True
        if self.state.status not in WORKING:
            return False
        if self.state.accepting:
            self._accept(self.state.accepting)
        elif self.state.phase is Phase.IDLE:
            self._begin()
        elif self.state.phase is Phase.GENERATING:
            self._propose()
        elif self.state.phase is Phase.EVALUATED:
            self._close()
        else:
            self._try()
        return True

    # ---- IDLE

    def _begin(self) -> None:
        state = self.state
        number = len(state.steps) + 1
        if state.pending_edit:
            parent = state.pending_parent or state.base
            idea = state.pending_idea or "edited by hand"
            self._append(
                StepStarted(number, parent),
                Proposed(number, state.pending_edit, Author.PERSON, idea, parent=parent),
            )
        elif number > state.max_steps:
            spent = f"the budget of {state.max_steps} steps is used up; raise it to go on"
            self._append(StateChanged(SessionState.EXHAUSTED, spent))
        else:
            repaired = request.to_repair(state, self._bench.proposer(state).max_repairs)
            base = request.mended(repaired) if repaired else state.base
            self._append(StepStarted(number, base, state.instruction, repaired is not None))

    # ---- GENERATING

    def _propose(self) -> None:
        proposer = self._bench.proposer(self.state)
        step = self._open_step()
        begun = time.monotonic()
        if self.state.running_stage is None:
            self._append(StageStarted(step.number, Stage.GENERATE))
        answer = proposer.respond(request.request(self._store, self.state, self._bench, step))
        if isinstance(answer, Ask):
            self._ask(answer, step)
        elif isinstance(answer, Sweep):
            self._append(*studies.swept(self._store, self.state, self._bench, step, _Watch(self)))
        elif isinstance(answer, WantsProfile):
            assert step.base is not None
            self._append(studies.profiled(self._store, self.state, self._bench, step.base, _Watch(self)))
        else:
            self._append(*self._answered(answer, step, time.monotonic() - begun))

    def _ask(self, ask: Ask, step: Step) -> None:
        """Carries a prompt to the model; without one the person carries it."""
        prompt = self._store.put(self.state.prompt or ask.prompt)
        model = self._bench.model(self.state)
        if waits_at(Gate.PROMPT, self.state):
            self._append(GateOpened(step.number, Gate.PROMPT, note=ask.note, prompt=prompt, role=ask.role))
        elif model is None:
            note = f"carry the prompt to a model and paste its reply ({ask.note})"
            self._append(GateOpened(step.number, Gate.REPLY, note=note, prompt=prompt, role=ask.role))
        else:
            call = model.plan(ask.role, self._store.text(prompt), self.state)
            self._append(ModelCalled(step.number, ask.role, prompt, call.model, call.reserved_tokens))
            reply = call.carry_out(_Arriving(self))
            self._append(*self._replied(step, ask, prompt, reply))
            if reply.stopped:
                raise StoppedError(reply.error)

    def _replied(self, step: Step, ask: Ask, prompt: str, reply: ModelReply) -> list[Event]:
        answered = ModelAnswered(
            step.number,
            ask.role,
            prompt,
            self._store.put(reply.text),
            reply.finish,
            reply.prompt_tokens,
            reply.completion_tokens,
            reply.estimated,
            reply.seconds,
            reply.error,
        )
        interrupted = bool(reply.error) and not reply.stopped
        return [answered, StateChanged(SessionState.INTERRUPTED, reply.error)] if interrupted else [answered]

    def _lost(self) -> list[Event]:
        step = self._open_step()
        call = step.calls[-1]
        nothing, used = self._store.put(""), call.reserved_tokens
        answered = ModelAnswered(step.number, call.role, call.prompt, nothing, "lost", used, 0, True, error=LOST_CALL)
        return [answered, StateChanged(SessionState.INTERRUPTED, LOST_CALL)]

    def _answered(self, answer: Answer, step: Step, seconds: float) -> list[Event]:
        match answer:
            case Proposal():
                source = self._store.put(answer.source)
                generated = StageResult(Stage.GENERATE, StageStatus.PASSED, seconds + _model_seconds(step))
                proposed = Proposed(step.number, source, answer.author, answer.idea, answer.plan, step.base)
                return [proposed, StageEnded(step.number, generated)]
            case Unparsed():
                return self._unparsed(answer, step)
            case Declined(reason):
                return [GateOpened(step.number, Gate.INSTRUCTION, note=reason)]
            case Finished():
                return self._finished(answer.reason, answer.choice, step)
            case Ask() | Sweep() | WantsProfile():
                raise AssertionError("carried out by the session, not answered")

    def _unparsed(self, answer: Unparsed, step: Step) -> list[Event]:
        """The reply is kept as a candidate that never gets past GENERATE, so the person can see and mend it."""
        reply = self._store.put(answer.reply)
        status = Status.PATCH_FAILED if answer.patch_failed else Status.UNPARSED
        stage = Stage.PATCH if answer.patch_failed else Stage.GENERATE
        result = StageResult(stage, StageStatus.FAILED, 0.0, status)
        trial = Trial(reply, status, (result,), self.state.settings.executor, message=answer.reason)
        idea = "changes that do not apply" if answer.patch_failed else "reply without a kernel file"
        return [
            Proposed(step.number, reply, Author.MODEL, idea, "", step.base),
            StageEnded(step.number, result),
            request.tried(self._store, step.number, trial),
        ]

    def _finished(self, reason: str, choice: str, step: Step) -> list[Event]:
        if self.state.autonomy is not Autonomy.AUTO:
            return [GateOpened(step.number, Gate.INSTRUCTION, note=reason)]
        closed = StepClosed(step.number, Outcome.UNANSWERED, reason)
        if self.state.best is None:
            return [closed, StateChanged(SessionState.STOPPED, f"{reason}; nothing passed")]
        chosen = choice if self.state.passed(choice) else self.state.best
        accept = decisions.policy_accepts(chosen, self.state.meaning_seq)
        return [closed, *decisions.consequences(replace(self.state, steps=()), accept, self._store.put)]

    # ---- PROPOSED, TESTING

    def _try(self) -> None:
        step = self._open_step()
        assert step.candidate is not None
        if self.state.phase is Phase.PROPOSED:
            for gate in (Gate.PLAN, Gate.DIFF):
                if waits_at(gate, self.state):
                    self._append(GateOpened(step.number, gate, step.candidate))
                    return
        self._append(TrialStarted(step.number, step.candidate))
        trial = self._remembered(step) or self._evaluate(step.candidate, against=self.state.best)
        self._append(request.tried(self._store, step.number, trial))

    def _evaluate(self, candidate: str, *, against: str | None = None, thorough: bool = False) -> Trial:
        """Args: `against`: the kernel to be timed in turns with it, where anything is timed."""
        evaluator = self._bench.evaluator(self.state)
        best = against if against and against != candidate else None
        trial = evaluator.evaluate(
            request.candidate(self._store, self.state, candidate),
            seed=secrets.randbits(31),
            watch=_Watch(self),
            thorough=thorough,
            best=request.candidate(self._store, self.state, best) if best else None,
        )
        unfinished = evaluator.executor.times and "NOT_TIMED" in trial.marks
        if trial.status not in OF_THE_MOMENT and not unfinished:
            self._store.cache_trial(self._trial_key(candidate), self._store.put_record(trial))
        return trial

    def _remembered(self, step: Step) -> Trial | None:
        """The stored trial of an unchanged candidate. Acceptance never asks for it, and its time decides nothing beside
        another kernel's: where there is a timed best to beat, what passed is tried, and timed in turns, again."""
        assert step.candidate is not None
        cached = self._store.cached_trial(self._trial_key(step.candidate))
        if cached is None:
            return None
        trial = replace(self._store.record(Trial, cached.trial), cached=True)
        if trial.passed and self._has_rival(step.candidate):
            return None
        stages = (r if r.status is StageStatus.SKIPPED else replace(r, note="from cache") for r in trial.stages)
        self._append(*(StageEnded(step.number, replace(r, seconds=0.0)) for r in stages))
        return trial

    def _has_rival(self, candidate: str) -> bool:
        """Whether another kernel is the best and time decides between the two."""
        return self.state.best not in (None, candidate) and self._bench.evaluator(self.state).executor.times

    def _trial_key(self, candidate: str) -> str:
        """Where its trial is kept. What was timed holds for one device only: GPUs of one arch differ in speed."""
        settings, evaluator = self.state.settings, self._bench.evaluator(self.state)
        machine = [evaluator.device.uuid or evaluator.device.name] if evaluator.executor.times else []
        return content_key(
            " ".join([candidate, settings.problem, settings.executor, settings.arch, *machine, judge_digest()])
        )

    # ---- EVALUATED

    def _close(self) -> None:
        step = self._open_step()
        doubt = promotion.doubt(step) if Gate.PROMOTION not in self.state.gates_passed else ""
        if doubt or waits_at(Gate.PROMOTION, self.state):
            self._append(GateOpened(step.number, Gate.PROMOTION, step.candidate, note=doubt))
        elif step.passed:
            kept = promotion.not_faster(self.state, step) if Gate.PROMOTION not in self.state.gates_passed else ""
            self._append(StepClosed(step.number, promotion.outcome(self.state, step, kept), kept))
        else:
            assert step.verdict is not None
            self._append(StepClosed(step.number, Outcome.FAILED, step.verdict.message))

    # ---- ACCEPTING

    def _accept(self, candidate: str) -> None:
        number = len(self.state.steps)
        self._append(TrialStarted(number, candidate, acceptance=True))
        trial = self._evaluate(candidate, thorough=True)
        if trial.passed:
            verdict = StateChanged(SessionState.ACCEPTED, "passed again with fresh inputs")
        else:
            verdict = StateChanged(SessionState.AWAITING_REVIEW, f"the acceptance test failed: {trial.message}")
        self._append(request.tried(self._store, number, trial, acceptance=True), verdict)

    # ---- small things

    def _append(self, *events: Event, taking: int | None = None) -> None:
        for recorded in self._store.append(self.id, events, after=self.state.seq, taking=taking):
            self.state = apply(self.state, recorded)

    def _open_step(self) -> Step:
        step = self.state.open_step
        assert step is not None
        return step


@dataclass(frozen=True)
class _Watch:
    """Writes the progress of a trial into the trajectory, and what a stage says, line by line, beside it."""

    session: Session
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LIVE_LINES))

    def started(self, stage: Stage) -> None:
        self.said.clear()
        self.session._append(StageStarted(len(self.session.state.steps), stage))

    def ended(self, result: StageResult) -> None:
        self.session._append(StageEnded(len(self.session.state.steps), result))

    def say(self, text: str) -> None:
        since = self.session.state.running_since if self.session.state.running_stage else 0.0
        self.said.append(f"{time.time() - since:6.1f} s  {text}" if since else text)
        self.session._store.set_live(self.session.id, "\n".join(self.said))

    def stopped(self) -> bool:
        waiting = self.session._store.waiting(self.session.id)
        return any(w.decision.kind is DecisionKind.STOP for w in waiting)


class _Arriving(_Watch):
    """A model's text, which is said whole each time."""

    def say(self, text: str) -> None:
        self.session._store.set_live(self.session.id, text)


def _model_seconds(step: Step) -> float:
    return sum(call.answer.seconds for call in step.calls if call.answer)
