"""Replay a recorded session: the same prompts, replies and kernels, everything else really run."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.propose.model_port import Line, ModelReply, OneModel, PlannedCall
from cutegen_core.propose.port import Answer, Ask, Finished, Proposal, ProposalRequest, TriesSuite, Unparsed, Width
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import ModelAnswered, Role
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import NO_KERNEL, Status
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store


class ReplayProposer:
    """Proposer and model of a replay: proposes what the recorded session tried, step by step.

    What the person turned down before it was tried is passed over; what they accepted is accepted.
    """

    name = "replay"
    max_repairs = 0

    def __init__(self, store: Store, recording: str) -> None:
        self._store = store
        recorded = state_of(store, recording)
        self._steps = [step for step in recorded.steps if step.candidate is not None and step.tried is not None]
        self._suites = recorded.suites
        self._choice = recorded.best or ""

    def respond(self, request: ProposalRequest) -> Answer:
        """Return the recorded step's next exchange, then its kernel."""
        number = sum(1 for attempt in request.attempts if attempt.candidate)
        if number >= len(self._steps):
            return Finished(f"all {len(self._steps)} recorded steps were replayed", self._choice)
        step = self._steps[number]
        if step.alternatives:
            return self._alternative(step, request)
        suite = self._next_suite(step, request)
        if suite is not None:
            return suite
        answers = _answers(step)
        if len(request.calls) < len(answers):
            call = answers[len(request.calls)]
            return Ask(call.role, self._store.text(call.prompt), "recorded")
        assert step.candidate is not None
        text = self._store.text(step.candidate)
        if step.tried and step.status in (Status.UNPARSED, Status.PATCH_FAILED):
            return Unparsed(text, step.tried.message, step.status is Status.PATCH_FAILED, step.idea)
        return Proposal(text, step.author or Author.IMPORT, step.idea, step.plan)

    def width(self, done: int) -> Width:
        """Return how many alternatives the recorded step had, and the one that it went on with."""
        step = self._steps[done] if done < len(self._steps) else None
        return Width(len(step.alternatives), step.candidate or "") if step and step.alternatives else Width()

    def _alternative(self, step: Step, request: ProposalRequest) -> Answer:
        """Return the next exchange of one of the step's alternatives, then its kernel."""
        wanted = step.alternatives[request.alternative - 1]
        answers = _answers(step, wanted.number)
        if len(request.calls) < len(answers):
            call = answers[len(request.calls)]
            return Ask(call.role, self._store.text(call.prompt), "recorded")
        if not wanted.candidate:
            return Finished(wanted.note)
        text = self._store.text(wanted.candidate)
        if wanted.tried and wanted.tried.status in NO_KERNEL:
            failed = wanted.tried.status is Status.PATCH_FAILED
            return Unparsed(text, wanted.tried.message, failed, wanted.idea)
        return Proposal(text, Author.MODEL, wanted.idea, wanted.plan)

    def _next_suite(self, step: Step, request: ProposalRequest) -> TriesSuite | None:
        """Return the next recorded suite where it was tried: behind its answer, or in an earlier step; else None."""
        done = len(request.suites)
        if done >= len(self._suites) or self._suites[done].step > step.number:
            return None
        suite = self._suites[done]
        answered = sum(call.role is Role.TESTING for call in request.calls)
        earlier = sum(other.step == suite.step for other in self._suites[:done])
        if suite.step == step.number and answered <= earlier:
            return None
        return TriesSuite(self._store.record(Problem, suite.problem) if suite.problem else None, suite.message)

    def plan(self, role: Role, prompt: str, state: State) -> PlannedCall:
        """Return the recorded reply to this step's next prompt; it costs nothing."""
        number = sum(1 for step in state.steps[:-1] if step.candidate)
        answer = _answers(self._steps[number])[len(state.steps[-1].calls)]
        return _RecordedCall(self._store.text(answer.reply), answer)

    def context_tokens(self, state: State) -> int:
        """Return 0, unknown: recorded prompts are sent as they were."""
        return 0

    def only_one(self, state: State) -> OneModel | None:
        """Return None: recorded conversations are sent as they were."""
        return None


@dataclass(frozen=True)
class _RecordedCall:
    text: str
    answer: ModelAnswered
    model: str = "recording"
    reserved_tokens: int = 0
    reserved_cost: float | None = None

    def carry_out(self, line: Line) -> ModelReply:
        line.say(self.text)
        return ModelReply(self.text, self.answer.finish, 0, 0, False, 0.0)


def _answers(step: Step, alternative: int | None = None) -> list[ModelAnswered]:
    """Return the answers that counted, of one alternative or of the whole step."""
    used = [call for call in step.calls if call.answer and not call.answer.error and not call.dropped]
    return [call.answer for call in used if call.answer and alternative in (None, call.alternative)]
