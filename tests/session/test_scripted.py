"""The loop, its gates, decisions and durability on scripted trials: milliseconds a step."""

from pathlib import Path

import pytest

from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.errors import LeaseError
from cutegen_core.records.event import Outcome, SessionState, StateChanged
from cutegen_core.records.trial import Status
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import fold
from tests.session.scripted import scripted

NAIVE, BETTER = "// naive\n", "// better\n"
BROKEN = "// broken\n// status COMPILE_ERROR\n"


def test_auto_mode_goes_from_the_seed_to_an_accepted_kernel(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE, BROKEN, BETTER) as desk:
        session = desk.start(autonomy=Autonomy.AUTO)
        state = desk.go(session)
        assert state.status is SessionState.ACCEPTED
        assert [step.outcome for step in state.steps] == [
            Outcome.PROMOTED, Outcome.FAILED, Outcome.PROMOTED, Outcome.UNANSWERED,
        ]  # fmt: skip
        assert desk.store.text(state.best) == BETTER
        assert (desk.made.tried, desk.made.thorough) == ([NAIVE, BROKEN, BETTER], [BETTER])


def test_a_repair_goes_on_from_the_failed_kernel_and_then_from_the_best_again(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE, BROKEN, BROKEN + "// 2\n", BETTER) as desk:
        state = desk.go(desk.start(autonomy=Autonomy.AUTO))
        bases = [desk.store.text(step.base) if step.base else "" for step in state.steps[:4]]
        assert bases == ["", NAIVE, BROKEN, NAIVE]
        assert [step.repair for step in state.steps[:4]] == [False, False, True, False]


def test_every_gate_waits_and_each_approval_lets_it_on(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(gates=(Gate.PLAN, Gate.DIFF, Gate.PROMOTION))
        state = desk.go(session)
        for gate in (Gate.PLAN, Gate.DIFF):
            assert (state.status, state.gate.gate) == (SessionState.AWAITING_REVIEW, gate)
            assert desk.made.tried == []
            state = desk.approve(session)
        assert (state.gate.gate, desk.made.tried) == (Gate.PROMOTION, [NAIVE])
        state = desk.approve(session)
        assert state.steps[0].outcome is Outcome.PROMOTED


def test_who_sees_that_a_decision_is_taken_sees_the_gate_it_leads_to(tmp_path: Path) -> None:
    """A page looks once a decision is taken; what comes a commit later it shows half a second later."""
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(gates=(Gate.DIFF,))
        desk.go(session)
        desk.decide(session, DecisionKind.STOP)
        desk.store.submit(session, Decision(DecisionKind.RESUME))
        assert Session(desk.store, session, desk).take_decisions()
        state = state_of(desk.store, session)
        assert (state.status, state.gate.gate) == (SessionState.AWAITING_REVIEW, Gate.DIFF)


def test_an_edit_by_hand_walks_the_same_stages_without_gates_of_its_own(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(gates=(Gate.DIFF,))
        desk.go(session)
        state = desk.decide(session, DecisionKind.EDIT, source=BETTER, text="half the loads")
        edited = state.steps[1]
        assert (edited.author, edited.idea, edited.status) == (Author.PERSON, "half the loads", Status.PASSED)
        assert state.steps[0].outcome is Outcome.EDITED


@pytest.mark.parametrize("kind", [DecisionKind.REJECT, DecisionKind.REDIRECT])
def test_a_turned_down_candidate_is_never_tried(tmp_path: Path, kind: DecisionKind) -> None:
    with scripted(tmp_path, NAIVE, BETTER) as desk:
        session = desk.start(gates=(Gate.DIFF,))
        desk.go(session)
        state = desk.decide(session, kind, text="too long")
        assert state.steps[0].outcome in (Outcome.REJECTED, Outcome.REDIRECTED)
        assert (desk.made.tried, len(state.steps)) == ([], 2)


def test_a_kernel_that_fails_its_acceptance_is_refuted_and_the_one_before_is_best_again(tmp_path: Path) -> None:
    lucky = "// lucky\n// accepted NONDETERMINISTIC\n"
    with scripted(tmp_path, NAIVE, lucky) as desk:
        session = desk.start(autonomy=Autonomy.AUTO)
        state = desk.go(session)
        assert (state.status, desk.store.text(state.best)) == (SessionState.AWAITING_REVIEW, NAIVE)
        assert state.steps[1].outcome is Outcome.FAILED


def test_a_candidate_seen_before_takes_its_stored_trial_and_acceptance_never_does(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        first = desk.go(desk.start(autonomy=Autonomy.AUTO))
        second = desk.go(desk.start(autonomy=Autonomy.AUTO))
        assert (desk.made.tried, desk.made.thorough) == ([NAIVE], [NAIVE, NAIVE])
        assert first.status is second.status is SessionState.ACCEPTED


def test_without_a_clock_a_models_kernel_becomes_the_best_by_its_estimate(tmp_path: Path) -> None:
    sources = [f"// kernel {n}\n// estimate {us}\n" for n, us in enumerate((90, 40, 40, 60, 39.9, 12))]
    with scripted(tmp_path, *sources) as desk:
        state = desk.go(desk.start(autonomy=Autonomy.AUTO))
        outcomes = [step.outcome for step in state.steps if step.candidate]
        assert outcomes == [
            Outcome.PROMOTED, Outcome.PROMOTED, Outcome.KEPT, Outcome.KEPT, Outcome.KEPT, Outcome.PROMOTED,
        ]  # fmt: skip
        assert state.steps[3].note == "not measured; estimate 60 µs, and the best's is 40 µs"
        assert desk.store.text(state.best) == sources[-1]


def test_kernels_without_an_estimate_are_promoted_as_before(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE, "// other\n// estimate 12\n", BETTER) as desk:
        state = desk.go(desk.start(autonomy=Autonomy.AUTO))
        assert [step.outcome for step in state.steps if step.candidate] == [Outcome.PROMOTED] * 3


def test_the_step_budget_ends_a_session_and_raising_it_goes_on(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE, BETTER) as desk:
        session = desk.start(autonomy=Autonomy.AUTO, max_steps=1)
        assert desk.go(session).status is SessionState.EXHAUSTED
        state = desk.decide(session, DecisionKind.BUDGET, max_steps=9)
        assert (state.status, desk.store.text(state.best)) == (SessionState.ACCEPTED, BETTER)


def test_a_study_that_cannot_be_had_is_refused_or_answered(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(autonomy=Autonomy.AUTO)
        state = desk.go(session)
        with pytest.raises(AssertionError, match="needs a GPU"):
            desk.decide(session, DecisionKind.STUDY, candidate=state.best, study=StudyKind.PROFILE)
        with pytest.raises(AssertionError, match="a step of its own"):
            desk.decide(session, DecisionKind.STUDY, candidate=state.best, study=StudyKind.SWEEP)


def test_a_stale_decision_changes_nothing(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(gates=(Gate.DIFF,))
        before = desk.go(session)
        with pytest.raises(AssertionError, match="another source"):
            desk.decide(session, DecisionKind.APPROVE, gate=Gate.DIFF, candidate="f" * 64)
        assert state_of(desk.store, session).seq == before.seq


def test_two_writers_never_interleave(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE) as desk:
        session = desk.start(gates=(Gate.DIFF,))
        late = Session(desk.store, session, desk)
        desk.go(session)
        with pytest.raises(LeaseError):
            late.append(StateChanged(SessionState.STOPPED))


def test_a_session_killed_after_any_event_ends_as_one_that_was_not(tmp_path: Path) -> None:
    """A kill leaves a prefix of the trajectory behind; events of one moment were written in one transaction."""
    with scripted(tmp_path, NAIVE, BROKEN, BETTER) as desk:
        whole = desk.go(desk.start(autonomy=Autonomy.AUTO))
        events = desk.store.events(desk.store.sessions()[0])
        for length in range(1, len(events)):
            if events[length].at == events[length - 1].at:
                continue
            killed = desk.store.adopt(events[:length])
            state = desk.go(killed)
            assert (state.status, state.best) == (whole.status, whole.best), events[length].event
            assert [s.outcome for s in state.steps] == [s.outcome for s in whole.steps]


def test_the_state_is_a_fold_of_the_events_whoever_asks(tmp_path: Path) -> None:
    with scripted(tmp_path, NAIVE, BETTER) as desk:
        session = desk.start(autonomy=Autonomy.AUTO)
        state = desk.go(session)
        assert fold(desk.store.events(session)) == state == state_of(Store(desk.store.path), session)
