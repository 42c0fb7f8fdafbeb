"""Who answers a role, and the gate at which a role's answer is reviewed: approve, replace, send back, all else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cutegen_core.propose.port import Answer, Ask, Finished, Proposal, ProposalRequest, Width
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, ModelAnswered, Outcome, Role, SessionState
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.transitions import REPLACED
from tests.session.scripted import ScriptedSessions

GATES = (Gate.ANSWER, Gate.DIFF)


@dataclass(frozen=True)
class TwoRoles:
    """Planning, then coding, both answered by the playbook; the kernel is the coding role's answer."""

    name: str = "two roles"
    max_repairs: int = 0

    def width(self, done: int) -> Width:
        return Width()

    def respond(self, request: ProposalRequest) -> Answer:
        if len(request.attempts) == 2:
            return Finished("two steps are enough")
        told = request.sent_back.dropped if request.sent_back else "nothing"
        match [call.role for call in request.calls]:
            case []:
                return Ask(Role.PLANNING, "what next?", offered=f"plan {request.instruction or told}")
            case [Role.PLANNING]:
                plan = request.calls[0].reply
                return Ask(Role.CODING, "write it", offered=f"// {plan} {len(request.attempts)} {told}\n")
        return Proposal(request.calls[1].reply, Author.PLAYBOOK, request.calls[0].reply, "")


class Desk(ScriptedSessions):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ())
        self.writes = TwoRoles()  # type: ignore[assignment]


@pytest.fixture
def desk(tmp_path: Path):
    made = Desk(tmp_path)
    yield made
    made.store.close()


def replies(desk: Desk, state: State, step: int = -1) -> list[tuple[Role, str, str]]:
    calls = state.steps[step].calls
    return [(c.role, desk.store.text(c.answer.reply) if c.answer else "", c.dropped) for c in calls]


def test_the_playbooks_answers_are_recorded_as_a_models_and_cost_no_tokens(desk: Desk) -> None:
    session = desk.start(autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert (state.status, state.tokens) == (SessionState.ACCEPTED, 0)
    assert replies(desk, state, 0) == [
        (Role.PLANNING, "plan nothing", ""),
        (Role.CODING, "// plan nothing 0 nothing\n", ""),
    ]
    answers = [r.event for r in desk.store.events(session) if isinstance(r.event, ModelAnswered)]
    assert {answer.by for answer in answers} == {AnsweredBy.PLAYBOOK}


def test_each_answer_waits_once_and_approval_lets_it_on(desk: Desk) -> None:
    session = desk.start(gates=GATES)
    state = desk.go(session)
    for role in (Role.PLANNING, Role.CODING):
        assert state.gate is not None
        assert (state.status, state.gate.gate, state.gate.role) == (SessionState.AWAITING_REVIEW, Gate.ANSWER, role)
        assert desk.store.text(state.gate.prompt) in ("what next?", "write it")
        state = desk.approve(session)
    assert state.gate is not None
    assert state.gate.gate is Gate.DIFF
    assert len(state.steps[0].calls) == 2


def test_an_answer_that_is_sent_back_is_asked_again_in_the_same_step(desk: Desk) -> None:
    session = desk.start(gates=GATES)
    desk.go(session)
    state = desk.decide(session, DecisionKind.REDIRECT, text="use shuffles")
    assert replies(desk, state) == [
        (Role.PLANNING, "plan nothing", "use shuffles"),
        (Role.PLANNING, "plan use shuffles", ""),
    ]
    assert state.gate is not None
    assert (state.gate.gate, state.gate.role, len(state.steps), state.instruction) == (
        Gate.ANSWER,
        Role.PLANNING,
        1,
        "",
    )
    state = desk.decide(session, DecisionKind.REDIRECT, text="no, two rows")
    assert [dropped for _, _, dropped in replies(desk, state)] == ["use shuffles", "no, two rows", ""]
    state = desk.approve(session)
    assert replies(desk, state)[-1] == (Role.CODING, "// plan no, two rows 0 nothing\n", "")


def test_a_persons_own_answer_takes_the_place_of_the_roles(desk: Desk) -> None:
    session = desk.start(gates=GATES)
    desk.go(session)
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.ANSWER, text="my plan")
    assert replies(desk, state)[:2] == [(Role.PLANNING, "plan nothing", REPLACED), (Role.PLANNING, "my plan", "")]
    by = [call.answer.by for call in state.steps[0].calls if call.answer]
    assert by == [AnsweredBy.PLAYBOOK, AnsweredBy.PERSON, AnsweredBy.PLAYBOOK]
    assert state.gate is not None
    assert state.gate.role is Role.CODING, "one's own answer needs no review"


@pytest.mark.parametrize(
    ("kind", "fields", "outcome"),
    [
        (DecisionKind.REJECT, {"text": "no"}, Outcome.REJECTED),
        (DecisionKind.EDIT, {"source": "// by hand\n"}, Outcome.EDITED),
        (DecisionKind.REWIND, {"step": 0}, Outcome.REWOUND),
    ],
)
def test_other_decisions_at_the_answer_gate_mean_what_they_mean_elsewhere(
    desk: Desk, kind: DecisionKind, fields: dict[str, object], outcome: Outcome
) -> None:
    session = desk.start(gates=GATES)
    desk.go(session)
    state = desk.decide(session, kind, **fields)
    assert state.steps[0].outcome is outcome
    assert len(state.steps) > 1


def test_stop_and_resume_at_the_answer_gate_come_back_to_it(desk: Desk) -> None:
    session = desk.start(gates=GATES)
    desk.go(session)
    assert desk.decide(session, DecisionKind.STOP).status is SessionState.STOPPED
    state = desk.decide(session, DecisionKind.RESUME)
    assert state.gate is not None
    assert (state.gate.gate, len(state.steps[0].calls)) == (Gate.ANSWER, 1)


def test_without_the_gate_nothing_waits_and_switching_it_off_lets_on(desk: Desk) -> None:
    session = desk.start(gates=GATES)
    desk.go(session)
    state = desk.decide(session, DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO)
    assert state.status is SessionState.ACCEPTED


def test_roles_of_one_session_are_answered_by_different_ones(desk: Desk) -> None:
    session = desk.start(autonomy=Autonomy.AUTO, roles={Role.PLANNING: AnsweredBy.PERSON})
    state = desk.go(session)
    assert state.gate is not None
    assert (state.gate.gate, state.gate.role) == (Gate.REPLY, Role.PLANNING)
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text="by hand")
    assert replies(desk, state, 0) == [(Role.PLANNING, "by hand", ""), (Role.CODING, "// by hand 0 nothing\n", "")]


def test_what_the_person_says_reaches_the_prompt_of_the_role(desk: Desk) -> None:
    session = desk.start(gates=(Gate.ANSWER,), roles={Role.CODING: AnsweredBy.PERSON})
    desk.go(session)
    state = desk.approve(session)
    assert state.gate is not None
    assert desk.store.text(state.gate.prompt) == "write it"
    state = desk.decide(session, DecisionKind.REPLY, gate=Gate.REPLY, text="// a\n")
    assert state.steps[0].outcome is Outcome.PROMOTED


def test_an_answer_session_killed_after_any_event_ends_as_one_that_was_not(desk: Desk) -> None:
    session = desk.start(gates=(Gate.ANSWER,))
    desk.go(session)
    desk.decide(session, DecisionKind.REDIRECT, text="again")
    desk.decide(session, DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO)
    whole = desk.go(session)
    assert whole.status is SessionState.ACCEPTED
    events = desk.store.events(session)
    told = [r for r in events if r.event.kind == "decided"][-1].seq
    for length in range(told, len(events)):
        if events[length].at == events[length - 1].at:
            continue
        state = desk.go(desk.store.adopt(events[:length]))
        assert (state.status, state.best) == (whole.status, whole.best), events[length].event
        assert [replies(desk, state, n) for n in range(2)] == [replies(desk, whole, n) for n in range(2)]


@pytest.mark.parametrize(
    ("kind", "outcome"), [(DecisionKind.REWIND, Outcome.REWOUND), (DecisionKind.BRANCH, Outcome.BRANCHED)]
)
def test_a_person_goes_back_to_an_earlier_step_from_an_answer(desk: Desk, kind: DecisionKind, outcome: Outcome) -> None:
    session = desk.start(gates=(Gate.ANSWER,))
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    assert state.gate is not None
    assert (len(state.steps), state.gate.gate) == (2, Gate.ANSWER)
    state = desk.decide(session, kind, step=1)
    assert state.steps[1].outcome is outcome
    assert state.base == state.steps[0].candidate
    assert state.branched is (kind is DecisionKind.BRANCH)


def test_the_best_kernel_can_be_accepted_while_an_answer_waits(desk: Desk) -> None:
    session = desk.start(gates=(Gate.ANSWER,))
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=state.best)
    assert (state.status, state.steps[1].outcome) == (SessionState.ACCEPTED, Outcome.UNANSWERED)
