"""The loop with a person in charge, every kernel really compiled and executed."""

import pytest

from cutegen_core import views
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Outcome, SessionState
from cutegen_core.records.trial import Stage, StageStatus, Status
from tests.few_runs import few_runs
from tests.places import DATA
from tests.session.real_sessions import loop

RELU = (DATA / "relu.cu").read_text()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("sessions")) as made:
        yield made


def test_a_person_approves_edits_rewinds_and_accepts(desk):
    session = desk.start(few_runs("relu"))
    state = desk.go(session)
    assert (state.status, state.gate.gate) == (SessionState.AWAITING_REVIEW, Gate.DIFF)

    state = desk.approve(session)
    assert (state.gate.gate, state.step.status) == (Gate.PROMOTION, Status.PASSED)
    stages = {r.stage: r.status for r in state.step.stages}
    assert stages[Stage.TEST] is StageStatus.PASSED
    assert stages[Stage.BENCHMARK] is StageStatus.SKIPPED
    state = desk.approve(session)
    first = state.steps[0]
    assert state.best == first.candidate

    bug = RELU.replace(": 0.0f", ": 0.5f")
    state = desk.decide(session, DecisionKind.EDIT, source=bug, candidate=state.best)
    assert state.step.author is Author.PERSON
    assert state.step.status is Status.INCORRECT_NUMERICAL
    assert "first at [" in state.step.tried.message
    assert "want 0" in state.step.tried.message
    assert state.best == first.candidate

    state = desk.decide(session, DecisionKind.REWIND, step=1)
    assert state.base == first.candidate
    assert state.gate.gate is Gate.DIFF
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=first.candidate)
    assert (state.status, state.best) == (SessionState.ACCEPTED, first.candidate)
    assert state.acceptance.status is Status.PASSED
    assert len(state.steps) == 4


def test_auto_mode_ends_accepted_with_the_last_kernel_that_passed(desk):
    session = desk.start(few_runs("relu"), autonomy=Autonomy.AUTO)
    state = desk.go(session)
    assert state.status is SessionState.ACCEPTED
    assert state.acceptance.status is Status.PASSED
    assert sum(step.outcome is Outcome.PROMOTED for step in state.steps) >= 3
    promoted = state.step_of(state.best)
    tried = views.step_view(desk.store, session, promoted.number).trial
    accepted = views.acceptance_trial(desk.store, state)
    assert accepted.candidate == tried.candidate
    assert accepted.correctness.verdicts[0].seed != tried.correctness.verdicts[0].seed


def test_an_unchanged_candidate_answers_from_the_cache(desk):
    session = desk.start(few_runs("relu"))
    desk.go(session)
    state = desk.approve(session)
    assert state.step.status is Status.PASSED
    assert views.step_view(desk.store, session, 1).trial.cached
    assert {r.note for r in state.step.stages if r.stage is Stage.COMPILE} == {"from cache"}


def test_a_redirect_changes_the_next_source_and_unknown_words_are_said(desk):
    session = desk.start(few_runs("relu"))
    desk.go(session)
    before = views.step_view(desk.store, session, 1).source
    state = desk.decide(session, DecisionKind.REDIRECT, text="use 512 threads")
    after = views.step_view(desk.store, session, len(state.steps)).source
    assert state.steps[0].outcome is Outcome.REDIRECTED
    assert after != before
    assert "512" in after
    state = desk.decide(session, DecisionKind.REDIRECT, text="paint it blue")
    assert state.gate.gate is Gate.INSTRUCTION
    assert "paint it blue" in state.gate.note


def test_a_rejection_is_remembered_and_nothing_is_tried(desk):
    session = desk.start("gelu")
    desk.go(session)
    state = desk.decide(session, DecisionKind.REJECT, text="too plain")
    assert (state.steps[0].outcome, state.steps[0].note, state.steps[0].tried) == (Outcome.REJECTED, "too plain", None)
    assert state.step.candidate != state.steps[0].candidate


def test_stop_and_resume_go_on_at_the_same_gate(desk):
    session = desk.start(few_runs("relu"))
    desk.go(session)
    stopped = desk.decide(session, DecisionKind.STOP)
    assert stopped.status is SessionState.STOPPED
    resumed = desk.decide(session, DecisionKind.RESUME)
    assert (resumed.status, resumed.gate.gate) == (SessionState.AWAITING_REVIEW, Gate.DIFF)


def test_a_spent_budget_says_so_and_can_be_raised(desk):
    session = desk.start(few_runs("relu"), autonomy=Autonomy.AUTO, max_steps=1)
    state = desk.go(session)
    assert (state.status, len(state.steps)) == (SessionState.EXHAUSTED, 1)
    assert "budget of 1 steps" in state.reason
    state = desk.decide(session, DecisionKind.BUDGET, max_steps=20)
    assert state.status is SessionState.ACCEPTED


def test_a_person_carries_the_prompt_and_pastes_the_reply(desk):
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.PERSON)
    state = desk.go(session)
    assert state.gate.gate is Gate.REPLY
    prompt = desk.store.text(state.gate.prompt)
    assert "torch.relu(x)" in prompt
    state = desk.decide(session, DecisionKind.REPLY, text=f"Idea: seed: one thread an element\n```cpp\n{RELU}```")
    assert state.gate.gate is Gate.DIFF
    assert state.step.idea == "seed: one thread an element"
    assert state.step.plan.startswith("Idea: seed")
    state = desk.approve(session)
    assert state.step.status is Status.PASSED


def test_a_reply_without_a_kernel_is_a_failed_step_not_the_end(desk):
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.PERSON, gates=())
    desk.go(session)
    state = desk.decide(session, DecisionKind.REPLY, text="I am sorry, I cannot do that.")
    assert (state.gate.gate, len(state.steps)) == (Gate.REPLY, 1)
    assert "I am sorry, I cannot do that." in desk.store.text(state.gate.prompt)
    state = desk.decide(session, DecisionKind.REPLY, text="No, really.")
    assert state.steps[0].status is Status.UNPARSED
    assert "SEARCH/REPLACE" in state.steps[0].tried.message
    assert state.gate.gate is Gate.REPLY
