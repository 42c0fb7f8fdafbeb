"""The one writer of a session: the state it has reached, and the events it appends."""

from __future__ import annotations

import time
from collections import deque
from contextlib import AbstractContextManager
from typing import Protocol

from cutegen_core.evaluate.mutation.trust import SuiteJudges
from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Proposer
from cutegen_core.records.decision import DecisionKind
from cutegen_core.records.event import Event, Role, StageEnded, StageStarted
from cutegen_core.records.trial import Stage, StageResult
from cutegen_core.trajectory.read import append, state_of
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store

LIVE_LINES = 200
"""How many of the last lines of a running stage are kept; they are not part of the trajectory."""


class SessionTools(Protocol):
    """Where a session gets its tools. Making one may start processes, so each is made when it is first needed."""

    def proposer(self, state: State) -> Proposer: ...

    def model(self, state: State, role: Role | None = None) -> Model | None:
        """Return who answers prompts of this role, or of any; None where a person carries them."""

    def evaluator(self, state: State) -> CandidateEvaluator: ...

    def suite_judges(self, state: State, problem: str) -> AbstractContextManager[SuiteJudges]:
        """Give what checks a suite; `problem` is the blob key of the problem that has it."""


class Writer:
    """A session that this process writes. `append` raises LeaseError when another process has written to it."""

    def __init__(self, store: Store, session: str, tools: SessionTools) -> None:
        self.id = session
        self.store = store
        self.tools = tools
        self.state = state_of(store, session)

    def append(self, *events: Event, taking: int | None = None) -> None:
        """Make the events durable, then apply them to the state.

        Args:
            taking: id of the inbox entry that these events answer.
        """
        self.state = append(self.store, self.id, self.state, events, taking=taking)

    @property
    def open_step(self) -> Step:
        """The step in progress; there must be one."""
        step = self.state.open_step
        assert step is not None
        return step

    @property
    def evaluator(self) -> CandidateEvaluator:
        return self.tools.evaluator(self.state)


class TrialWatch:
    """Write a trial's progress into the trajectory, and show the lines of its stages while they run."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lines: deque[str] = deque(maxlen=LIVE_LINES)

    def started(self, stage: Stage) -> None:
        self._lines.clear()
        self._writer.append(StageStarted(len(self._writer.state.steps), stage))

    def ended(self, result: StageResult) -> None:
        self._writer.append(StageEnded(len(self._writer.state.steps), result))

    def say(self, text: str) -> None:
        state = self._writer.state
        since = state.running_since if state.running_stage else 0.0
        self._lines.append(f"{time.time() - since:6.1f} s  {text}" if since else text)
        self._writer.store.set_live(self._writer.id, "\n".join(self._lines))

    def stopped(self) -> bool:
        return stop_waits(self._writer)


class AlternativeWatch(TrialWatch):
    """Show the progress of one of several candidates; its stages are none of the step's."""

    def __init__(self, writer: Writer, name: str) -> None:
        super().__init__(writer)
        self._name = name

    def started(self, stage: Stage) -> None:
        self.say(f"{self._name}: {stage.lower()}")

    def ended(self, result: StageResult) -> None:
        self.say(f"{self._name}: {result.stage.lower()} {result.status}")


class ReplyLine:
    """Show a model's reply while it arrives: each text replaces the one before."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def say(self, text: str) -> None:
        self._writer.store.set_live(self._writer.id, text)

    def stopped(self) -> bool:
        return stop_waits(self._writer)


def stop_waits(writer: Writer) -> bool:
    """Return whether a Stop is among the waiting decisions."""
    return any(w.decision.kind is DecisionKind.STOP for w in writer.store.waiting(writer.id))
