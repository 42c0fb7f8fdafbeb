"""What the loop makes of measured times: who is promoted, what a sweep chooses, when a person must look."""

from dataclasses import replace

import pytest

from cutegen_core.evaluate import sweep
from cutegen_core.evaluate.ablation import AblationTable
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.evaluate.timing.contest import ContestResult, Verdict
from cutegen_core.printing import session_json
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.event import AnsweredBy, Outcome, SessionState
from cutegen_core.records.performance import BEST, Untimed, Word
from cutegen_core.records.trial import ExecutorKind, Mark, Stage, StageStatus, Status, Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.views import session_view, speed_rows
from tests.few_runs import few_runs
from tests.places import DATA
from tests.session.clockwork import Clock, TimedLoop, taking

RELU = (DATA / "relu.cu").read_text()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    made = TimedLoop(tmp_path_factory.mktemp("timed"))
    yield made
    made.close()


def trial(store: Store, step) -> Trial:
    return store.record(Trial, step.tried.trial)


def by_hand(desk):
    """Return a session on ReLU that waits for kernels written by hand."""
    session = desk.start(few_runs("relu"), gates=(Gate.DIFF,), answered_by=AnsweredBy.PERSON)
    desk.go(session)
    return session


def edited(desk, session, us):
    """Go on with a kernel that takes so long. Tests begin with one of 40 us, which is tried once for all of them."""
    return desk.decide(session, DecisionKind.EDIT, source=taking(RELU, us))


def test_only_a_faster_kernel_becomes_the_best(desk):
    session = by_hand(desk)
    first = edited(desk, session, 40.0)
    assert first.steps[-2].outcome is Outcome.PROMOTED
    assert first.steps[-2].tried.latency_ms == 0.04
    slower = edited(desk, session, 44.0).steps[-2]
    assert (slower.outcome, slower.tried.against_best) == (Outcome.KEPT, Word.SLOWER)
    same = edited(desk, session, 39.9).steps[-2]
    assert (same.outcome, same.tried.against_best) == (Outcome.KEPT, Word.SAME)
    assert "SAME" in same.note
    faster = edited(desk, session, 30.0)
    assert faster.steps[-2].outcome is Outcome.PROMOTED
    assert faster.best == faster.steps[-2].candidate
    found = trial(desk.store, faster.steps[-2])
    assert found.performance.workloads[0].speedup(BEST).word is Word.FASTER
    assert next(r for r in found.stages if r.stage is Stage.BENCHMARK).status is StageStatus.PASSED
    assert Mark.NOT_TIMED not in found.marks


class Busy(Clock):
    """The GPU is somebody else's."""

    def measure(self, contest, watch):
        return ContestResult(not_timed="the GPU is busy", marks=(Mark.NOT_TIMED,))


class BusyForOne(Clock):
    """One of the workloads could not be timed."""

    def measure(self, contest, watch):
        return replace(super().measure(contest, watch), marks=(Mark.NOT_TIMED,))


class WithoutTheBest(Clock):
    """The best kernel cannot be timed in turns with the candidate."""

    def measure(self, contest, watch):
        lacking = super().measure(replace(contest, best=None), watch).performance
        return ContestResult(
            performance=replace(lacking, untimed=(Untimed(BEST, "cannot be built any more: no compiler"),))
        )


class Wrong(Clock):
    """The candidate answers wrong at the problem's own size."""

    status = Status.INCORRECT_NUMERICAL

    def measure(self, contest, watch):
        return ContestResult(failure=Verdict(self.status, "1 of 8 elements are wrong"))


class StoppedBy(Clock):
    """A person stops the session while something is timed."""

    session = ""
    store = None

    def measure(self, contest, watch):
        self.store.submit(self.session, Decision(DecisionKind.STOP))
        return super().measure(contest, watch)


@pytest.fixture
def clock(desk):
    """Sets the clock for the rest of a test."""
    usual = desk.clock

    def use(kind):
        desk.clock = kind()
        return desk.clock

    yield use
    desk.clock = usual


def test_what_was_not_timed_replaces_nothing_that_was_and_is_timed_when_it_comes_again(desk, clock):
    session = by_hand(desk)
    best = edited(desk, session, 40.0).best
    clock(Busy)
    state = edited(desk, session, 50.5)
    untimed = state.steps[-2]
    assert (untimed.status, untimed.outcome, state.best) == (Status.PASSED, Outcome.KEPT, best)
    assert Mark.NOT_TIMED in untimed.tried.marks
    assert untimed.note == "not measured, and the best is (0.04 ms)"
    clock(Clock)
    state = edited(desk, session, 50.5)
    assert (state.steps[-2].outcome, state.steps[-2].tried.latency_ms, state.best) == (Outcome.KEPT, 0.0505, best)


@pytest.mark.parametrize("autonomy", [pytest.param(Autonomy.STEP, marks=pytest.mark.thorough), Autonomy.AUTO])
def test_where_the_best_cannot_be_timed_beside_it_a_person_decides(desk, clock, autonomy):
    session = desk.start(few_runs("relu"), gates=(Gate.DIFF,), answered_by=AnsweredBy.PERSON, autonomy=autonomy)
    desk.go(session)
    best = edited(desk, session, 40.0).best
    clock(WithoutTheBest)
    state = edited(desk, session, 20.5)
    assert (state.status, state.gate.gate, state.best) == (SessionState.AWAITING_REVIEW, Gate.PROMOTION, best)
    assert state.gate.note == "not measured in turns with the best kernel: cannot be built any more: no compiler"
    state = desk.approve(session)
    assert (state.steps[-2].outcome, state.best) == (Outcome.PROMOTED, state.steps[-2].candidate)


class Slower(Clock):
    """The device is at another clock: everything takes half as long again."""

    def _us(self, entry):
        return 1.5 * super()._us(entry)


def test_times_of_different_moments_decide_nothing(desk, clock):
    before = by_hand(desk)
    known = edited(desk, before, 35.5).best
    clock(Slower)
    session = by_hand(desk)
    best = edited(desk, session, 30.5).best
    state = edited(desk, session, 35.5)
    step = state.steps[-2]
    assert (step.candidate, step.outcome, state.best) == (known, Outcome.KEPT, best)
    assert (step.tried.against_best, trial(desk.store, step).cached) == (Word.SLOWER, False)
    state = edited(desk, session, 30.5)
    assert trial(desk.store, state.steps[-2]).cached


def test_the_time_of_one_workload_does_not_stand_for_another(desk, clock):
    session = by_hand(desk)
    best = edited(desk, session, 40.0).best
    clock(BusyForOne)
    state = edited(desk, session, 35.25)
    assert (state.steps[-2].outcome, state.best) == (Outcome.KEPT, best)
    assert state.steps[-2].note.startswith("not measured, and the best is")


def test_where_nothing_was_timed_yet_an_untimed_kernel_is_the_best(desk, clock):
    session = by_hand(desk)
    clock(Busy)
    assert edited(desk, session, 51.5).steps[-2].outcome is Outcome.PROMOTED
    clock(Clock)
    assert edited(desk, session, 52.5).steps[-2].outcome is Outcome.PROMOTED


def test_a_time_is_remembered_for_the_device_it_was_taken_on(desk, clock):
    def cached(us):
        session = by_hand(desk)
        return trial(desk.store, edited(desk, session, us).steps[-2]).cached

    assert [cached(53.5), cached(53.5)] == [False, True]
    desk.uuid = "GPU-other"
    try:
        assert [cached(53.5), cached(53.5)] == [False, True]
    finally:
        desk.uuid = "GPU-one"


def test_a_kernel_that_fails_its_acceptance_test_is_not_gone_on_from(desk, clock):
    session = by_hand(desk)
    first = edited(desk, session, 40.0).best
    state = edited(desk, session, 32.0)
    refuted, number = state.best, state.steps[-2].number
    clock(Wrong)
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=refuted)
    assert (state.status, state.best, state.base) == (SessionState.AWAITING_REVIEW, first, first)
    assert "the acceptance test failed: workload" in state.reason
    view = session_view(desk.store, session)
    assert view.can_accept == first
    assert view.steps[number - 1].status is Status.INCORRECT_NUMERICAL
    assert [row.step for row in speed_rows(desk.store, state)] == [view.state.step_of(first).number]
    assert session_json(desk.store, session)["best"]["status"] is Status.PASSED
    clock(Clock)
    with pytest.raises(AssertionError, match="failed its acceptance test"):
        desk.decide(session, DecisionKind.ACCEPT, candidate=refuted)
    state = edited(desk, session, 32.0)
    assert (state.steps[-2].candidate, state.steps[-2].outcome, state.best) == (refuted, Outcome.FAILED, first)
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=first)
    assert (state.status, state.best) == (SessionState.ACCEPTED, first)


def test_a_running_ablation_can_be_stopped(desk, clock):
    session = by_hand(desk)
    edited(desk, session, 40.0)
    state = desk.decide(session, DecisionKind.EDIT, source=taking(RELU, 30.0).replace("default = 256", "default = 512"))
    stopping = clock(StoppedBy)
    stopping.session, stopping.store = session, desk.store
    state = desk.decide(session, DecisionKind.STUDY, study=StudyKind.ABLATION, candidate=state.best)
    assert (state.status, state.studies_wanted, state.studies) == (SessionState.STOPPED, (), {})


def test_far_faster_than_every_baseline_waits_for_a_person_even_in_auto_mode(desk):
    session = desk.start(few_runs("relu"), autonomy=Autonomy.AUTO, answered_by=AnsweredBy.PERSON)
    desk.go(session)
    state = edited(desk, session, 2.0)
    assert (state.status, state.gate.gate) == (SessionState.AWAITING_REVIEW, Gate.PROMOTION)
    assert "look at the kernel" in state.gate.note
    assert Mark.CONFIRM in state.step.tried.marks
    state = desk.approve(session)
    assert state.steps[-2].outcome is Outcome.PROMOTED


def test_a_sweep_is_decided_by_time_and_the_defaults_win_ties(desk):
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.PERSON)
    evaluator = desk.bench(session).evaluator(session_view(desk.store, session).state)
    times = {128: 41.0, 256: 40.0, 512: 33.0}

    class ByBlock(Clock):
        def _us(self, entry):
            (step,) = entry.program.steps
            return times[step.block[0]]

    clock = ByBlock()
    table, source = sweep.sweep(replace(evaluator, timer=clock), Candidate(RELU, Author.PERSON, None), 1, SilentWatch())
    assert [row.params["BLOCK"] for row in table.rows] == [256, 512, 128], "the defaults, then the fastest first"
    assert [row.latency_ms for row in table.rows] == [0.040, 0.033, None], "only what is left is tested in full"
    assert [[round(us, 3) for us in row.raced_us] for row in table.rows] == [[40.0], [33.0], [41.0]]
    assert (table.rows[2].status, table.rows[2].message) == (None, "slower: left out after round 1")
    assert (table.turns, table.full_turns) == (3, 36)
    assert table.rows[table.chosen].params == {"BLOCK": 512}
    assert "default = 512" in source
    assert "measured latency" in table.decided_by
    assert not any(contest.baselines or contest.remeasure for contest in clock.contests)
    times[512] = 39.9
    table, source = sweep.sweep(replace(evaluator, timer=clock), Candidate(RELU, Author.PERSON, None), 1, SilentWatch())
    assert (table.chosen, source) == (0, RELU)


def test_profiling_is_for_gpus_and_says_so(desk):
    session = desk.start(few_runs("relu"), answered_by=AnsweredBy.PERSON, executor=ExecutorKind.CPU)
    desk.go(session)
    state = edited(desk, session, 40.0)
    with pytest.raises(AssertionError, match="Profiling needs a GPU"):
        desk.decide(
            session, DecisionKind.STUDY, study=StudyKind.PROFILE, candidate=state.steps[-1].candidate or state.best
        )


def test_the_hunks_of_a_change_are_tried_apart_and_timed_beside_what_it_changed(desk):
    session = by_hand(desk)
    edited(desk, session, 40.0)
    wider = taking(RELU, 30.0).replace("default = 256", "default = 512")
    state = desk.decide(session, DecisionKind.EDIT, source=wider)
    state = desk.decide(session, DecisionKind.STUDY, study=StudyKind.ABLATION, candidate=state.best)
    found = state.study(StudyKind.ABLATION, state.best)
    table = desk.store.record(AblationTable, found.result)
    assert table.titles == ("line 2, +1 -1", "line 8, +1 -1")
    took = {row.kept: row.spent.latency_ms for row in table.rows}
    assert took == {(): 0.040, (1, 2): 0.030, (1,): 0.030, (2,): 0.040}
    assert [table.row(*kept).spent.word for kept in ((1, 2), (1,), (2,))] == [Word.FASTER, Word.FASTER, Word.SAME]


def test_what_has_one_hunk_is_not_taken_apart_and_says_so(desk):
    session = by_hand(desk)
    edited(desk, session, 40.0)
    state = edited(desk, session, 30.0)
    state = desk.decide(session, DecisionKind.STUDY, study=StudyKind.ABLATION, candidate=state.best)
    assert "fewer than two hunks" in state.study(StudyKind.ABLATION, state.best).message


def test_a_branch_goes_on_from_its_own_tip_until_it_beats_the_best(desk):
    session = by_hand(desk)
    state = edited(desk, session, 40.0)
    number, first = state.steps[-2].number, state.best
    best = edited(desk, session, 30.0).best
    state = desk.decide(session, DecisionKind.BRANCH, step=number)
    assert (state.base, state.best, state.steps[-2].outcome) == (first, best, Outcome.BRANCHED)
    state = edited(desk, session, 35.0)
    tip = state.steps[-2]
    assert (tip.outcome, tip.parent, state.base, state.best) == (Outcome.ADVANCED, first, tip.candidate, best)
    state = edited(desk, session, 38.0)
    assert (state.steps[-2].outcome, state.base) == (Outcome.KEPT, tip.candidate)
    state = edited(desk, session, 20.0)
    assert (state.steps[-2].outcome, state.best) == (Outcome.PROMOTED, state.steps[-2].candidate)
    assert state.base == state.best
