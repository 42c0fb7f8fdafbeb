"""Sessions with everything real: store, evaluator, compiler, emulator, reference worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutegen_core import views
from cutegen_core.problems import library
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.problem import Problem
from cutegen_core.session import start
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import ToolsOfSession
from tests.shared_tools import ToolsOfTests


class Loop:
    """A workspace of its own; `go` does what the engine does for one session."""

    def __init__(self, folder: Path, *, run_timeout_s: float | None = None) -> None:
        self.store = Store(folder / "store.db")
        self.tools = ToolsOfTests(self.store, run_timeout_s)

    def start(self, problem: str | Problem = "relu", **options: object) -> str:
        found = library.load(problem) if isinstance(problem, str) else problem
        return start.create(self.store, found, **{"answered_by": AnsweredBy.PLAYBOOK, **options})  # type: ignore[arg-type]

    def go(self, session: str) -> State:
        return Session(self.store, session, self.bench(session)).run()

    def bench(self, session: str) -> ToolsOfSession:
        return self.tools.of_session(session)

    def decide(self, session: str, kind: DecisionKind, **fields: object) -> State:
        """Carry out a decision by somebody who has seen everything; raise when it is refused."""
        state = views.session_view(self.store, session).state
        number = self.store.submit(session, Decision(kind, state.seq, **fields))  # type: ignore[arg-type]
        after = self.go(session)
        refusal = self.store.ticket(number).refusal
        assert not refusal, refusal
        return after

    def approve(self, session: str) -> State:
        gate = views.session_view(self.store, session).state.gate
        assert gate is not None
        return self.decide(session, DecisionKind.APPROVE, gate=gate.gate, candidate=gate.candidate)

    def close(self) -> None:
        self.tools.close()
        self.store.close()


@contextmanager
def loop(folder: Path, *, run_timeout_s: float | None = None) -> Iterator[Loop]:
    """Yield the loop's parts in a folder of their own; close them at the end.

    Args:
        run_timeout_s: the limit of one run, for kernels that never end; the evaluator's own when None.
    """
    made = Loop(folder, run_timeout_s=run_timeout_s)
    try:
        yield made
    finally:
        made.close()


__all__ = ["Autonomy", "Gate", "Loop", "loop"]
