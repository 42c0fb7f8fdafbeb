"""One problem's refinement: the loop, with any strategy and any executor.

1. `take_decisions`: answer what waits in the inbox, with what follows at once.        (`decisions`)
2. `next_move`: from the state alone, say what comes next.                             (`moves`)
3. Carry it out: begin a step, ask the proposer, try, study or accept a candidate.  (`proposing`, `trying`, `studies`)

Every event is durable before it is acted on, so a session that is killed at any point goes on where it was.
"""

from __future__ import annotations

from cutegen_core.kernel.kernel_file import is_tunable
from cutegen_core.records.decision import Decision
from cutegen_core.records.errors import (
    BudgetError,
    MachineError,
    ProblemError,
    StaleDecisionError,
    StoppedError,
    UsageError,
)
from cutegen_core.records.event import Event, Outcome, SessionState, StateChanged, StepClosed, StepStarted
from cutegen_core.session import alternatives, decisions, moves, proposing, studies, trying
from cutegen_core.session.moves import Accept, Begin, LastSweep, Propose, Record, Study, Try, TryAlternative, Wait
from cutegen_core.session.writer import SessionTools, TrialWatch, Writer
from cutegen_core.trajectory.state import WORKING, State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import foresee


class Session(Writer):
    """The loop of one session. Raises LeaseError when another process has written to it."""

    def __init__(self, store: Store, session: str, tools: SessionTools) -> None:
        super().__init__(store, session, tools)
        if self.state.lost_call and self.state.status in WORKING and not self.state.settings.imported:
            self.append(*proposing.record_lost_call(self))

    def run(self) -> State:
        """Go on until a person has to act; record why the session ended or stopped."""
        try:
            while self.take_decisions() or self.turn():
                pass
        except StoppedError:
            self.take_decisions()
        except (MachineError, ProblemError, UsageError) as error:
            self.append(StateChanged(SessionState.INTERRUPTED, str(error)))
        return self.state

    def take_decisions(self) -> bool:
        """Answer everything in the inbox; return whether the state changed."""
        changed = False
        for waiting in self.store.waiting(self.id):
            try:
                decisions.check(self.state, waiting.decision)
            except StaleDecisionError as refusal:
                self.store.refuse(waiting.id, str(refusal))
                continue
            self.append(*self._answered(waiting.decision), taking=waiting.id)
            changed = True
        return changed

    def _answered(self, decision: Decision) -> list[Event]:
        """Return the events of a decision and of the moves after it that need no tool. They are one commit: who sees
        that the decision is taken sees the gate that it leads to."""
        events = decisions.consequences(self.state, decision, self.store.put)
        while isinstance(move := moves.next_move(foresee(self.state, events)), Record):
            events += move.events
        return events

    def _beginning(self) -> StepStarted:
        proposer = self.tools.proposer(self.state)
        done = sum(step.candidate is not None for step in self.state.steps)
        return moves.begin_step(self.state, proposer.max_repairs, proposer.width(done))

    def _proposed(self, step: Step) -> list[Event]:
        """Ask the proposer; where a call exceeds a budget, go on with the alternatives that there are, or end, after a
        sweep of the best kernel that is due.

        What a person asked for stays open: a raised budget goes on with it.
        """
        try:
            return proposing.propose(self, step)
        except BudgetError as error:
            given_up = alternatives.give_up(step, str(error))
            if given_up:
                return given_up
            if step.instruction or not studies.is_due(self):
                return [StateChanged(SessionState.EXHAUSTED, str(error), error.spent)]
            closed = StepClosed(step.number, Outcome.UNANSWERED, str(error))
            return [closed, moves.begin_last_sweep(self.state)]

    def turn(self) -> bool:
        """Carry out the next move; return False when the session waits for a decision or is over."""
        match moves.next_move(self.state):
            case Wait():
                return False
            case Begin():
                self.append(self._beginning())
            case LastSweep(best):
                due = is_tunable(self.store.text(best))
                self.append(moves.begin_last_sweep(self.state) if due else moves.exhausted(self.state))
            case Record(events):
                self.append(*events)
            case Propose(step):
                self.append(*self._proposed(step))
            case TryAlternative(alternative):
                self.append(*trying.try_alternative(self, alternative))
            case Try(step):
                self.append(*trying.try_candidate(self, step))
            case Study(wanted):
                self.append(studies.carry_out(self, wanted, TrialWatch(self)))
            case Accept(candidate):
                self.append(*trying.accept(self, candidate))
        return True
