"""kill -9 at every boundary of the journal of a session with roles: the suite's check, answers by hand, sent back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cutegen_core.records.decision import DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Role, SessionState
from cutegen_core.trajectory.state import State
from tests.propose.astra.desk import AstraSessions, astra, candidate
from tests.session.mortal import dies, make_mortal

STRONG = 'WORKLOADS = {"strong": {"role": "emulator", "tokens": 5, "dim": 17}}'
WEAK = STRONG.replace("strong", "weak")
PLAN = "Idea: by hand: one line\nShapes: all\nEffect: less time\nRisk: none"
ROLES = {Role.TESTING: AnsweredBy.PERSON, Role.CODING: AnsweredBy.PERSON}


def drive(desk: AstraSessions) -> State:
    """Do what a person does who looks at the session: go on from whatever state it is in, to the end."""
    known = desk.store.sessions()
    session = known[0] if known else desk.start(answered_by=AnsweredBy.PLAYBOOK, roles=ROLES, gates=(Gate.ANSWER,))
    state = desk.go(session)
    while state.status is SessionState.AWAITING_REVIEW:
        gate = state.gate
        assert gate is not None
        assert state.step is not None
        if gate.gate is Gate.INSTRUCTION or len(state.steps) > 3:
            state = desk.decide(session, DecisionKind.ACCEPT, candidate=state.best)
        elif gate.gate is Gate.REPLY and gate.role is Role.TESTING:
            text = STRONG if state.suites else WEAK
            state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text=text)
        elif gate.gate is Gate.REPLY:
            text = f"```cpp\n{candidate(desk.problem, f'step {len(state.steps)}')}```\n"
            state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text=text)
        elif gate.role is Role.PLANNING and not any(call.dropped for call in state.step.calls):
            state = desk.decide(session, DecisionKind.REDIRECT, text="the tuned one")
        elif gate.role is Role.PLANNING and len(state.steps) == 2:
            state = desk.decide(session, DecisionKind.REPLY, gate=Gate.ANSWER, text=PLAN)
        else:
            state = desk.approve(session)
    return state


def story(desk: AstraSessions, state: State) -> list[object]:
    steps = [(step.idea, step.outcome, [(call.role, call.dropped) for call in step.calls]) for step in state.steps]
    return [*steps, [(suite.trusted, suite.message) for suite in state.suites], state.status]


def work(folder: Path, at: int, *, before: bool) -> None:
    """Drive a session whose process is killed at this boundary."""
    with astra(folder) as desk:
        make_mortal(desk.store, at, before=before)
        drive(desk)


@pytest.mark.thorough
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
@pytest.mark.parametrize("stride", [97, 1])
def test_a_session_with_roles_killed_at_any_commit_ends_as_one_that_was_not(
    tmp_path: Path, stride: int, before: bool
) -> None:
    with astra(tmp_path) as desk:
        whole = story(desk, drive(desk))
        assert whole[-1] is SessionState.ACCEPTED
    boundary = 1
    while True:
        folder = tmp_path / f"killed-{boundary}"
        folder.mkdir()
        if not dies(partial(work, folder, boundary, before=before)):
            break
        with astra(folder) as desk:
            events = [recorded for session in desk.store.sessions() for recorded in desk.store.events(session)]
            state = drive(desk)
            assert story(desk, state) == whole
            assert desk.store.events(desk.store.sessions()[0])[: len(events)] == events, "nothing is lost or changed"
        boundary += stride
    assert boundary > 60, "every transaction of the session was one"
