"""The table of moves: for each kind of state, what the session does next."""

from collections.abc import Callable

import pytest

from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    Event,
    GateOpened,
    ModelCalled,
    Outcome,
    Proposed,
    Recorded,
    Role,
    SessionCreated,
    SessionSettings,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    Studied,
    TrialStarted,
    Tried,
)
from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.trial import ExecutorKind, Mark, Status
from cutegen_core.session import moves
from cutegen_core.session.moves import (
    Accept,
    Begin,
    LastSweep,
    Propose,
    Record,
    Study,
    Try,
    Wait,
    begin_last_sweep,
    begin_step,
    exhausted,
    next_move,
)
from cutegen_core.trajectory.state import State, WantedStudy
from cutegen_core.trajectory.transitions import fold

A, B = "a" * 64, "b" * 64
ANSWERED = Proposed(1, A, Author.PLAYBOOK, "naive")
TRIED = (TrialStarted(1, A), Tried(1, A, "", Status.PASSED))
FAILED = (TrialStarted(1, A), Tried(1, A, "", Status.INCORRECT_NUMERICAL, "wrong"))
PROMOTED = (StepStarted(1, None), ANSWERED, *TRIED, StepClosed(1, Outcome.PROMOTED))


def after(*events: Event, autonomy: Autonomy = Autonomy.AUTO, **settings: object) -> State:
    usual = {"answered_by": AnsweredBy.PLAYBOOK, "executor": ExecutorKind.CPU, "autonomy": autonomy}
    made = SessionSettings("p", "relu", **{**usual, **settings}, arch="sm_90a", device_name="H200")
    return fold(Recorded(seq, 0.0, event) for seq, event in enumerate((SessionCreated(made), *events), 1))


def decided(kind: DecisionKind, **fields: object) -> Decided:
    return Decided(Decision(kind, **fields))


def opens(gate: Gate) -> Callable[[moves.Move], bool]:
    return lambda move: (
        isinstance(move, Record) and [type(e) for e in move.events] == [GateOpened] and (move.events[0].gate is gate)
    )


def closes(outcome: Outcome) -> Callable[[moves.Move], bool]:
    return lambda move: (
        isinstance(move, Record)
        and [type(e) for e in move.events] == [StepClosed]
        and (move.events[0].outcome is outcome)
    )


def is_a(kind: type) -> Callable[[moves.Move], bool]:
    return lambda move: isinstance(move, kind)


STEP = Autonomy.STEP
TABLE = [
    ("a new session begins a step", after(), is_a(Begin)),
    ("an imported one waits", after(origin="imported from x"), is_a(Wait)),
    ("a stopped one waits", after(StateChanged(SessionState.STOPPED)), is_a(Wait)),
    ("an open step asks its proposer", after(StepStarted(1, None)), is_a(Propose)),
    ("also after a call", after(StepStarted(1, None), ModelCalled(1, Role.PROPOSER, "p")), is_a(Propose)),
    ("a candidate is tried", after(StepStarted(1, None), ANSWERED), is_a(Try)),
    ("a killed trial is tried again", after(StepStarted(1, None), ANSWERED, TrialStarted(1, A)), is_a(Try)),
    ("the diff gate opens", after(StepStarted(1, None), ANSWERED, autonomy=STEP), opens(Gate.DIFF)),
    (
        "the plan gate comes first",
        after(StepStarted(1, None), ANSWERED, autonomy=STEP, gates=(Gate.PLAN, Gate.DIFF)),
        opens(Gate.PLAN),
    ),
    ("an open gate waits", after(StepStarted(1, None), ANSWERED, GateOpened(1, Gate.DIFF, A)), is_a(Wait)),
    (
        "an approved gate lets it on",
        after(
            StepStarted(1, None),
            ANSWERED,
            GateOpened(1, Gate.DIFF, A),
            decided(DecisionKind.APPROVE, gate=Gate.DIFF, candidate=A),
            autonomy=STEP,
        ),
        is_a(Try),
    ),
    (
        "a killed trial asks no gate again",
        after(StepStarted(1, None), ANSWERED, TrialStarted(1, A), autonomy=STEP),
        is_a(Try),
    ),
    ("what passed is promoted", after(StepStarted(1, None), ANSWERED, *TRIED), closes(Outcome.PROMOTED)),
    ("what failed is closed", after(StepStarted(1, None), ANSWERED, *FAILED), closes(Outcome.FAILED)),
    ("a person promotes", after(StepStarted(1, None), ANSWERED, *TRIED, autonomy=STEP), opens(Gate.PROMOTION)),
    (
        "a marked kernel needs a person, also in auto mode",
        after(
            StepStarted(1, None), ANSWERED, TrialStarted(1, A), Tried(1, A, "", Status.PASSED, marks=(Mark.CONFIRM,))
        ),
        opens(Gate.PROMOTION),
    ),
    (
        "a slower kernel is kept, not promoted",
        after(
            StepStarted(1, None),
            ANSWERED,
            TrialStarted(1, A),
            Tried(1, A, "", Status.PASSED, latency_ms=1.0),
            StepClosed(1, Outcome.PROMOTED),
            StepStarted(2, A),
            Proposed(2, B, Author.PLAYBOOK, "other"),
            TrialStarted(2, B),
            Tried(2, B, "", Status.PASSED, latency_ms=2.0, against_best=Word.SLOWER),
        ),
        closes(Outcome.KEPT),
    ),
    (
        "a kernel that is slower on one workload is kept, though faster on the mean",
        after(
            StepStarted(1, None),
            ANSWERED,
            TrialStarted(1, A),
            Tried(1, A, "", Status.PASSED, latency_ms=1.0),
            StepClosed(1, Outcome.PROMOTED),
            StepStarted(2, A),
            Proposed(2, B, Author.PLAYBOOK, "other"),
            TrialStarted(2, B),
            Tried(
                2,
                B,
                "",
                Status.PASSED,
                latency_ms=0.5,
                against_best=Word.FASTER,
                shapes=(ShapeTime("a", 0.2, Word.FASTER, 3.0), ShapeTime("b", 1.25, Word.SLOWER, 0.8)),
            ),
        ),
        lambda move: (
            closes(Outcome.KEPT)(move)
            and move.events[0].note == "regressed on b (1.25x slower): timed in turns with the best kernel"
        ),
    ),
    ("between steps the next begins", after(*PROMOTED), is_a(Begin)),
    (
        "the step budget ends it",
        after(*PROMOTED, max_steps=1),
        lambda move: isinstance(move, Record) and move.events[0].state is SessionState.EXHAUSTED,
    ),
    (
        "an edit opens a step of its own, also beyond the budget",
        after(*PROMOTED, decided(DecisionKind.EDIT, source=B, candidate=A), max_steps=1),
        lambda move: isinstance(move, Record) and [type(e) for e in move.events] == [StepStarted, Proposed],
    ),
    ("an acceptance is tested", after(*PROMOTED, decided(DecisionKind.ACCEPT, candidate=A)), is_a(Accept)),
    (
        "a killed acceptance is tested again",
        after(*PROMOTED, decided(DecisionKind.ACCEPT, candidate=A), TrialStarted(1, A, acceptance=True)),
        is_a(Accept),
    ),
    (
        "a study comes before everything else",
        after(*PROMOTED, decided(DecisionKind.STUDY, candidate=A, study=StudyKind.PROFILE)),
        lambda move: move == Study(WantedStudy(StudyKind.PROFILE, A)),
    ),
    (
        "also when the session is over",
        after(
            *PROMOTED,
            StateChanged(SessionState.ACCEPTED),
            decided(DecisionKind.STUDY, candidate=A, study=StudyKind.ABLATION),
        ),
        is_a(Study),
    ),
    ("nothing else is done then", after(*PROMOTED, StateChanged(SessionState.ACCEPTED)), is_a(Wait)),
]


@pytest.mark.parametrize(("state", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_next_move(state: State, expected: Callable[[moves.Move], bool]) -> None:
    move = next_move(state)
    assert expected(move), move
    assert next_move(state) == move


def failures(count: int, *, repairs: int, status: Status = Status.COMPILE_ERROR) -> State:
    """Return `count` failed steps in a row after a promoted one; the last `repairs` of them were repairs."""
    events = list(PROMOTED)
    for number in range(2, 2 + count):
        key = f"{number:064d}"
        events += [
            StepStarted(number, A, repair=number >= 2 + count - repairs),
            Proposed(number, key, Author.MODEL, "idea"),
            TrialStarted(number, key),
            Tried(number, key, "", status, "no"),
            StepClosed(number, Outcome.FAILED),
        ]
    return after(*events)


def test_a_failure_is_repaired_from_the_failed_kernel_until_the_repairs_are_used_up() -> None:
    assert begin_step(failures(1, repairs=0), 3) == StepStarted(3, f"{2:064d}", repair=True)
    assert begin_step(failures(3, repairs=2), 3) == StepStarted(5, f"{4:064d}", repair=True)
    assert begin_step(failures(4, repairs=3), 3) == StepStarted(6, A)
    assert begin_step(failures(1, repairs=0), 0) == StepStarted(3, A)


def test_a_reply_without_a_kernel_is_repaired_from_what_it_was_to_change() -> None:
    assert begin_step(failures(1, repairs=0, status=Status.UNPARSED), 3) == StepStarted(3, A, repair=True)


def test_an_instruction_comes_before_a_repair() -> None:
    state = failures(1, repairs=0)
    redirected = fold(
        [
            Recorded(1, 0.0, SessionCreated(state.settings)),
            *(Recorded(2 + i, 0.0, e) for i, e in enumerate(PROMOTED)),
            Recorded(7, 0.0, decided(DecisionKind.REDIRECT, text="use smem")),
        ]
    )
    assert begin_step(redirected, 3) == StepStarted(2, A, "use smem")


def swept(step: int, candidate: str = B) -> tuple[Event, ...]:
    """Return a last sweep of A, and the verdict that what it chose is no better."""
    proposed = Proposed(step, candidate, Author.PLAYBOOK, "tune: BLOCK=512", parent=A)
    begun = (StepStarted(step, A, study=StudyKind.SWEEP), Studied(StudyKind.SWEEP, A, "table", step=step), proposed)
    return (
        *begun,
        TrialStarted(step, candidate),
        Tried(step, candidate, "", Status.PASSED),
        StepClosed(step, Outcome.KEPT),
    )


def test_at_the_end_of_the_budget_the_best_kernel_is_swept_once_where_times_decide() -> None:
    gpu = {"max_steps": 1, "executor": ExecutorKind.GPU}
    ended = after(*PROMOTED, **gpu)
    assert next_move(ended) == LastSweep(A)
    begun = begin_last_sweep(ended)
    assert (begun.step, begun.base, begun.study) == (2, A, StudyKind.SWEEP)
    under_way = after(*PROMOTED, begun, **gpu)
    assert is_a(Propose)(next_move(under_way))
    assert under_way.spent_steps == 1, "the budget is one of proposals"
    done = after(*PROMOTED, *swept(2), **gpu)
    assert next_move(done) == Record((exhausted(done),))
    raised = after(*PROMOTED, *swept(2), decided(DecisionKind.BUDGET, max_steps=2), **gpu)
    assert is_a(Begin)(next_move(raised)), "a sweep has not used up what was raised"


def test_no_sweep_at_the_end_where_nothing_is_timed_nothing_passed_or_a_person_proposes() -> None:
    for events, settings in (
        (PROMOTED, {"executor": ExecutorKind.CPU}),
        ((StepStarted(1, None), ANSWERED, *FAILED, StepClosed(1, Outcome.FAILED)), {}),
        (PROMOTED, {"answered_by": AnsweredBy.PERSON}),
        (PROMOTED, {"answered_by": AnsweredBy.RECORDING}),
    ):
        state = after(*events, **{"max_steps": 1, "executor": ExecutorKind.GPU, **settings})
        assert next_move(state) == Record((exhausted(state),))
