"""The state machine: what each event does, what each gate waits for, which decisions are refused."""

import pytest

from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.errors import StaleDecisionError, StoreError
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Recorded,
    Role,
    SessionCreated,
    SessionSettings,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepClosed,
    StepStarted,
    TrialStarted,
    Tried,
)
from cutegen_core.records.trial import ExecutorKind, Stage, StageResult, StageStatus, Status
from cutegen_core.session import decisions
from cutegen_core.trajectory.state import Phase, waits_at
from cutegen_core.trajectory.transitions import apply, fold

A, B, C = "a" * 64, "b" * 64, "c" * 64


def settings(**changes):
    return SessionSettings("p", "relu", AnsweredBy.PLAYBOOK, ExecutorKind.CPU, "sm_90a", "H200", **changes)


def after(*events, **changes):
    everything = [SessionCreated(settings(**changes)), *events]
    return fold(Recorded(seq, float(seq), event) for seq, event in enumerate(everything, 1))


def proposed(step, candidate, author=Author.PLAYBOOK):
    return [StepStarted(step, None), Proposed(step, candidate, author, f"idea {step}")]


def tried(step, candidate, status=Status.PASSED):
    return [TrialStarted(step, candidate), Tried(step, candidate, "trial", status, "why" if status != "PASSED" else "")]


def promoted(step, candidate):
    return [*proposed(step, candidate), *tried(step, candidate), StepClosed(step, Outcome.PROMOTED)]


def decide(state, kind, **fields):
    return Decision(kind, seen=state.meaning_seq, **fields)


def taken(state, decision):
    for event in decisions.consequences(state, decision, lambda text: "blob of " + text):
        state = apply(state, Recorded(state.seq + 1, 0.0, event))
    return state


def test_a_step_walks_through_its_phases():
    stage = StageResult(Stage.COMPILE, StageStatus.PASSED, 0.5)
    assert after(StepStarted(1, None)).phase is Phase.GENERATING
    assert after(*proposed(1, A)).phase is Phase.PROPOSED
    testing = after(*proposed(1, A), TrialStarted(1, A), StageStarted(1, Stage.COMPILE))
    assert (testing.phase, testing.running_stage) == (Phase.TESTING, Stage.COMPILE)
    ended = after(*proposed(1, A), TrialStarted(1, A), StageStarted(1, Stage.COMPILE), StageEnded(1, stage))
    assert ended.running_stage is None
    assert ended.step.stages == (stage,)
    assert after(*proposed(1, A), *tried(1, A)).phase is Phase.EVALUATED
    done = after(*promoted(1, A))
    assert (done.phase, done.best, done.base, done.open_step) == (Phase.IDLE, A, A, None)


def test_a_failure_leaves_the_best_where_it_was():
    state = after(
        *promoted(1, A), *proposed(2, B), *tried(2, B, Status.COMPILE_ERROR), StepClosed(2, Outcome.FAILED, "line 3")
    )
    assert (state.best, state.base) == (A, A)
    assert state.step.note == "line 3"


def test_folding_event_by_event_gives_the_same_as_folding_at_once():
    events = [*promoted(1, A), *proposed(2, B), GateOpened(2, Gate.DIFF, B)]
    state = after(*events)
    again = None
    for seq, event in enumerate([SessionCreated(settings()), *events], 1):
        again = apply(again, Recorded(seq, float(seq), event))
    assert again == state


def test_a_trajectory_must_begin_with_its_creation():
    with pytest.raises(StoreError, match="must begin with session_created"):
        fold([Recorded(1, 0.0, StepStarted(1, None))])


@pytest.mark.parametrize(
    ("autonomy", "gate", "status", "waits"),
    [
        (Autonomy.STEP, Gate.DIFF, Status.PASSED, True),
        (Autonomy.STEP, Gate.PLAN, Status.PASSED, False),
        (Autonomy.STEP, Gate.PROMOTION, Status.PASSED, True),
        (Autonomy.UNTIL_FAILURE, Gate.DIFF, Status.PASSED, False),
        (Autonomy.UNTIL_FAILURE, Gate.PROMOTION, Status.PASSED, False),
        (Autonomy.UNTIL_FAILURE, Gate.PROMOTION, Status.INCORRECT_NUMERICAL, True),
        (Autonomy.PLAN_ONLY, Gate.PLAN, Status.PASSED, True),
        (Autonomy.PLAN_ONLY, Gate.DIFF, Status.PASSED, False),
        (Autonomy.AUTO, Gate.PROMOTION, Status.TIMEOUT, False),
        (Autonomy.AUTO, Gate.REPLY, Status.PASSED, True),
    ],
)
def test_which_gates_wait(autonomy, gate, status, waits):
    state = after(*proposed(1, A), *tried(1, A, status), autonomy=autonomy)
    assert waits_at(gate, state) is waits


def test_a_persons_own_text_needs_no_approval_before_it_is_tried():
    state = after(*proposed(1, A, Author.PERSON))
    assert not waits_at(Gate.DIFF, state)
    assert waits_at(Gate.PROMOTION, state)


def test_an_approval_is_bound_to_the_source_that_was_shown():
    state = after(*proposed(1, A), GateOpened(1, Gate.DIFF, A))
    decisions.check(state, decide(state, DecisionKind.APPROVE, gate=Gate.DIFF, candidate=A))
    with pytest.raises(StaleDecisionError, match="another source"):
        decisions.check(state, decide(state, DecisionKind.APPROVE, gate=Gate.DIFF, candidate=B))
    with pytest.raises(StaleDecisionError, match="nothing waiting"):
        decisions.check(state, decide(state, DecisionKind.APPROVE, gate=Gate.PROMOTION, candidate=A))


def test_a_decision_made_on_an_older_page_is_refused():
    state = after(*proposed(1, A), GateOpened(1, Gate.DIFF, A))
    stale = Decision(DecisionKind.REDIRECT, seen=state.meaning_seq - 1, text="vectorise")
    with pytest.raises(StaleDecisionError, match="moved on"):
        decisions.check(state, stale)
    decisions.check(state, Decision(DecisionKind.STOP))


def test_an_edit_closes_the_step_and_waits_to_open_its_own():
    state = after(*proposed(1, A), GateOpened(1, Gate.DIFF, A))
    state = taken(state, decide(state, DecisionKind.EDIT, source="new text", candidate=A))
    assert state.step.outcome is Outcome.EDITED
    assert (state.phase, state.pending_edit, state.pending_parent) == (Phase.IDLE, "blob of new text", A)
    assert state.status is SessionState.RUNNING


def test_a_rewind_moves_the_base_and_deletes_nothing():
    state = after(*promoted(1, A), *promoted(2, B), StepStarted(3, B), GateOpened(3, Gate.INSTRUCTION))
    state = taken(state, decide(state, DecisionKind.REWIND, step=1))
    assert (state.base, state.best) == (A, A)
    assert len(state.steps) == 3
    with pytest.raises(StaleDecisionError, match="Step 9 has no kernel"):
        decisions.check(
            after(*promoted(1, A), StateChanged(SessionState.STOPPED)), Decision(DecisionKind.REWIND, 99, step=9)
        )


def test_only_what_passed_can_be_accepted():
    state = after(*proposed(1, A), *tried(1, A, Status.INCORRECT_NUMERICAL), GateOpened(1, Gate.PROMOTION, A))
    with pytest.raises(StaleDecisionError, match="passed its tests"):
        decisions.check(state, decide(state, DecisionKind.ACCEPT, candidate=A))


def test_acceptance_tests_again_and_a_failure_hands_back_to_the_person():
    state = after(*promoted(1, A), StepStarted(2, A), GateOpened(2, Gate.INSTRUCTION))
    state = taken(state, decide(state, DecisionKind.ACCEPT, candidate=A))
    assert (state.accepting, state.status) == (A, SessionState.RUNNING)
    started = apply(state, Recorded(state.seq + 1, 0.0, TrialStarted(2, A, acceptance=True)))
    assert started.phase is Phase.ACCEPTING
    refused = apply(started, Recorded(started.seq + 1, 0.0, StateChanged(SessionState.AWAITING_REVIEW, "wrong")))
    assert (refused.phase, refused.accepting, refused.status) == (Phase.IDLE, None, SessionState.AWAITING_REVIEW)
    accepted = apply(started, Recorded(started.seq + 1, 0.0, StateChanged(SessionState.ACCEPTED)))
    assert (accepted.best, accepted.status) == (A, SessionState.ACCEPTED)


def accepted(step, candidate, status):
    return [
        Decided(Decision(DecisionKind.ACCEPT, candidate=candidate)),
        TrialStarted(step, candidate, acceptance=True),
        Tried(step, candidate, "trial", status, "wrong" if status is not Status.PASSED else "", acceptance=True),
        StateChanged(SessionState.ACCEPTED if status is Status.PASSED else SessionState.AWAITING_REVIEW),
    ]


def test_a_kernel_that_fails_its_acceptance_test_has_failed_and_the_best_before_it_is_best_again():
    state = after(*promoted(1, A), *promoted(2, B), *accepted(2, B, Status.INCORRECT_NUMERICAL))
    assert (state.best, state.base) == (A, A)
    assert (state.passed(A), state.passed(B)) == (True, False)
    failed = state.steps[1]
    assert (failed.status, failed.outcome) == (Status.INCORRECT_NUMERICAL, Outcome.FAILED)
    assert failed.note == "the acceptance test failed: wrong"
    assert failed.tried.status is Status.PASSED
    with pytest.raises(StaleDecisionError, match="failed its acceptance test"):
        decisions.check(state, decide(state, DecisionKind.ACCEPT, candidate=B))
    again = after(*promoted(1, A), *accepted(1, A, Status.MEMORY_ERROR))
    assert (again.best, again.base, again.best_step) == (None, None, None)


def test_a_refuted_kernel_does_not_pass_again_by_kind_inputs():
    refuted = [*promoted(1, A), *promoted(2, B), *accepted(2, B, Status.INCORRECT_NUMERICAL)]
    state = after(*refuted, *proposed(3, B), *tried(3, B))
    assert (state.step.status, state.passed(B)) == (Status.INCORRECT_NUMERICAL, False)


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.COMPILE_LIMIT])
def test_an_acceptance_test_on_a_busy_machine_says_nothing_about_the_kernel(status):
    state = after(*promoted(1, A), *accepted(1, A, status))
    assert (state.best, state.base, state.passed(A)) == (A, A, True)
    decisions.check(state, decide(state, DecisionKind.ACCEPT, candidate=A))


def test_after_a_rewind_nothing_that_came_later_is_the_best_again():
    rewound = Decided(Decision(DecisionKind.REWIND, step=1))
    state = after(*promoted(1, A), *promoted(2, B), rewound, *promoted(3, C), *accepted(3, C, Status.SUSPECT))
    assert (state.best, state.base) == (A, A)
    to_start = Decided(Decision(DecisionKind.REWIND, step=0))
    state = after(*promoted(1, A), to_start, *promoted(2, B), *accepted(2, B, Status.SUSPECT))
    assert (state.best, state.base) == (None, None)


def test_a_rewind_to_a_kept_kernel_leaves_nothing_later_to_fall_back_to():
    kept = [*proposed(2, B), *tried(2, B), StepClosed(2, Outcome.KEPT)]
    rewound = Decided(Decision(DecisionKind.REWIND, step=2))
    state = after(*promoted(1, A), *kept, *promoted(3, C), rewound)
    assert (state.best, state.base) == (B, B)
    refuted = [*promoted(1, A), *kept, *promoted(3, C), rewound, *accepted(3, B, Status.SUSPECT)]
    assert (after(*refuted).best, after(*refuted).base) == (A, A)
    assert after(*refuted, Decided(Decision(DecisionKind.REWIND, step=3))).best == C


def test_a_kernel_promoted_again_is_still_there_after_a_rewind_to_between():
    again = [*promoted(1, A), *promoted(2, B), *promoted(3, A)]
    state = after(*again, Decided(Decision(DecisionKind.REWIND, step=2)), *accepted(3, B, Status.SUSPECT))
    assert (state.best, state.base) == (A, A)


def test_a_stored_session_accepted_at_the_second_try_is_what_it_was_before_the_first():
    closed = [*proposed(1, A), *tried(1, A), StepClosed(1, Outcome.PROMOTED, "the first")]
    kept = [*proposed(2, A), *tried(2, A), StepClosed(2, Outcome.KEPT, "the same again")]
    failed = [*closed, *kept, *accepted(2, A, Status.INCORRECT_NUMERICAL)]
    assert [step.outcome for step in after(*failed).steps] == [Outcome.FAILED, Outcome.FAILED]
    state = after(*failed, *accepted(2, A, Status.PASSED))
    assert (state.status, state.best, state.passed(A)) == (SessionState.ACCEPTED, A, True)
    assert state.refuted(A) is None
    assert state.steps == after(*closed, *kept).steps


def test_a_stored_promotion_of_a_refuted_kernel_counts_once_it_is_accepted():
    failed = [*promoted(1, A), *promoted(2, B), *accepted(2, B, Status.INCORRECT_NUMERICAL), *promoted(3, B)]
    state = after(*failed)
    assert (state.best, state.base, state.step.outcome) == (A, A, Outcome.FAILED)
    state = after(*failed, *accepted(3, B, Status.PASSED))
    assert (state.best, state.best_step.number, state.best_step.status) == (B, 3, Status.PASSED)
    assert [step.outcome for step in state.steps] == [Outcome.PROMOTED] * 3


@pytest.mark.parametrize("study", [StudyKind.PROFILE, StudyKind.ABLATION])
def test_nobody_waits_for_a_look_that_was_wanted_elsewhere(study):
    study_wanted = Decided(Decision(DecisionKind.STUDY, study=study, candidate=A))
    wanted = [*promoted(1, A), StateChanged(SessionState.STOPPED), study_wanted]
    state = after(*wanted, origin="imported from a.jsonl")
    assert state.studies_wanted == ()


@pytest.mark.parametrize("study", [StudyKind.PROFILE, StudyKind.ABLATION])
@pytest.mark.parametrize("ended", [SessionState.ACCEPTED, SessionState.AWAITING_REVIEW, SessionState.STOPPED])
def test_stop_ends_every_wait_for_a_look_at_a_kernel(study, ended):
    state = after(*promoted(1, A), StateChanged(ended), Decided(Decision(DecisionKind.STUDY, study=study, candidate=A)))
    assert A in [wanted.candidate for wanted in state.studies_wanted]
    state = taken(state, Decision(DecisionKind.STOP))
    assert state.studies_wanted == ()
    assert (state.status is SessionState.ACCEPTED) == (ended is SessionState.ACCEPTED)


def test_stop_and_resume_return_to_the_same_gate():
    state = after(*proposed(1, A), GateOpened(1, Gate.DIFF, A))
    state = taken(state, Decision(DecisionKind.STOP))
    assert (state.status, state.phase) == (SessionState.STOPPED, Phase.PROPOSED)
    state = taken(state, Decision(DecisionKind.RESUME))
    assert state.status is SessionState.RUNNING
    assert waits_at(Gate.DIFF, state)


def test_switching_to_auto_opens_the_gate_that_waits():
    state = after(*proposed(1, A), GateOpened(1, Gate.DIFF, A))
    state = taken(state, Decision(DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO))
    assert (state.status, state.gate, state.autonomy) == (SessionState.RUNNING, None, Autonomy.AUTO)
    waiting = after(StepStarted(1, None), GateOpened(1, Gate.REPLY))
    assert taken(waiting, Decision(DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO)).gate is not None


def test_a_call_without_an_answer_is_known_to_be_lost_and_stays_charged():
    called = ModelCalled(1, Role.PROPOSER, "p", "m", 5000)
    lost = after(StepStarted(1, None), called)
    assert lost.lost_call
    assert lost.tokens == 5000
    answered = after(StepStarted(1, None), called, ModelAnswered(1, Role.PROPOSER, "p", "r", "stop", 700, 80))
    assert not answered.lost_call
    assert answered.tokens == 780


def test_a_pasted_reply_is_an_answer_like_any_other():
    state = after(StepStarted(1, None), GateOpened(1, Gate.REPLY, prompt="p", role=Role.PROPOSER))
    state = taken(state, decide(state, DecisionKind.REPLY, text="the reply"))
    assert [c.answer.reply for c in state.step.calls] == ["blob of the reply"]
    assert (state.status, state.phase) == (SessionState.RUNNING, Phase.GENERATING)


def test_decisions_must_carry_what_they_are_about():
    with pytest.raises(ValueError, match="to reject, give text"):
        Decision(DecisionKind.REJECT)
    with pytest.raises(ValueError, match="to accept, give candidate"):
        Decision(DecisionKind.ACCEPT)


def test_records_survive_the_store_and_misfits_are_named():
    decision = Decision(DecisionKind.APPROVE, 4, gate=Gate.DIFF, candidate=A)
    assert as_json.load(Decided, as_json.dump(Decided(decision))) == Decided(decision)
    with pytest.raises(StoreError, match="stored Decision cannot be read: kind"):
        as_json.load(Decision, '{"kind": "dance"}')


def test_the_step_that_tested_a_kernel_stands_for_it_not_a_later_one_that_only_carries_it():
    """A sweep that keeps the values gives the best kernel once more, and waits at the diff gate."""
    gone_back = decide(after(), DecisionKind.REWIND, step=1)
    events = [*proposed(1, A), *tried(1, A), StepClosed(1, Outcome.REDIRECTED), Decided(gone_back)]
    state = after(*events, *proposed(2, A), GateOpened(2, Gate.DIFF, A))
    assert (state.best, state.best_step.number, state.step_of(A).number) == (A, 1, 1)
    again = after(*events, *proposed(2, A), *tried(2, A), GateOpened(2, Gate.PROMOTION, A))
    assert again.best_step.number == 1, "whether the second becomes the best is asked just then"
    assert after(*proposed(1, A)).step_of(A).number == 1, "a kernel that nobody tested has its only step"
    assert after().step_of(A) is None
