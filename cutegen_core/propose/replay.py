"""Replay a recorded session: the same prompts, replies and kernels, everything else really run."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.propose.model_port import Line, ModelReply, PlannedCall
from cutegen_core.propose.port import Answer, Ask, Finished, Proposal, ProposalRequest, TriesSuite, Unparsed
from cutegen_core.records.candidate import Author
from cutegen_core.records.event import ModelAnswered, Role
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
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


@dataclass(frozen=True)
class _RecordedCall:
    text: str
    answer: ModelAnswered
    model: str = "recording"
    reserved_tokens: int = 0

    def carry_out(self, line: Line) -> ModelReply:
        line.say(self.text)
        return ModelReply(self.text, self.answer.finish, 0, 0, False, 0.0)


def _answers(step: Step) -> list[ModelAnswered]:
    return [call.answer for call in step.calls if call.answer and not call.answer.error and not call.dropped]
