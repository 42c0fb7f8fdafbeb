"""A session whose budget ends sweeps its best kernel before that; trials, times and compilers are scripted."""

import pytest

from cutegen_core.evaluate.sweep import SweepTable
from cutegen_core.propose.port import Finished
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate, Limit
from cutegen_core.records.errors import BudgetError
from cutegen_core.records.event import AnsweredBy, Outcome, SessionState
from cutegen_core.records.performance import Word
from cutegen_core.records.trial import ExecutorKind
from tests.evaluate.tuning.scripted_points import KERNEL, scripted_points
from tests.session.scripted import ScriptedProposer, ScriptedSessions

PLAIN = """/* cutegen
[[launch]]
kernel = "relu"
grid   = [1]
block  = [32]
args   = ["x", "out"]
*/
__global__ void relu(float const* x, float* out) {}
"""


@pytest.fixture
def sessions(tmp_path):
    made = ScriptedSessions(tmp_path, (KERNEL, KERNEL + "// second\n", KERNEL + "// third\n"))
    made.made = scripted_points(measures_speed=True)
    yield made
    made.store.close()


def begin(sessions, **options):
    usual = {"executor": ExecutorKind.GPU, "autonomy": Autonomy.AUTO, "max_steps": 1}
    return sessions.start(**{**usual, **options})


def test_the_sweep_is_one_more_step_and_its_kernel_becomes_the_best(sessions):
    session = begin(sessions)
    state = sessions.go(session)
    assert (state.status, state.spent_steps, len(state.steps)) == (SessionState.EXHAUSTED, 1, 2)
    last = state.steps[1]
    assert last.idea.startswith("tune: BLOCK=512, ITEMS=4")
    assert (last.outcome, last.tried.against_best, state.best) == (Outcome.PROMOTED, Word.FASTER, last.candidate)
    table = sessions.store.record(SweepTable, last.sweep)
    assert table.rows[table.chosen].params == {"BLOCK": 512, "ITEMS": 4}
    assert sessions.go(session).seq == state.seq, "it is over"


@pytest.mark.parametrize("executor", [ExecutorKind.GPU, ExecutorKind.CPU])
def test_a_sweep_that_changes_nothing_promotes_nothing(sessions, executor):
    sessions.made.us = lambda params: 40.0
    state = sessions.go(begin(sessions, executor=executor, tune=True))
    first, last = state.steps
    assert (last.candidate, last.outcome, state.best) == (first.candidate, Outcome.KEPT, first.candidate)
    assert last.note == "the best kernel itself, unchanged"


def test_a_raised_budget_goes_on_with_the_proposer(sessions):
    session = begin(sessions)
    sessions.go(session)
    state = sessions.decide(session, DecisionKind.BUDGET, max_steps=2)
    assert [step.study is not None for step in state.steps] == [False, True, False]
    assert state.status is SessionState.EXHAUSTED, "the best kernel is a sweep's own already"


def test_a_kernel_without_parameters_is_not_swept(sessions):
    sessions.writes, sessions.made.us = ScriptedProposer((PLAIN,)), lambda params: 40.0
    state = sessions.go(begin(sessions))
    assert (state.status, len(state.steps)) == (SessionState.EXHAUSTED, 1)


@pytest.mark.parametrize("executor", [ExecutorKind.GPU, ExecutorKind.CPU])
def test_a_session_that_tunes_sweeps_its_best_once_before_it_is_accepted(sessions, executor):
    state = sessions.go(begin(sessions, max_steps=9, tune=True, executor=executor))
    assert state.status is SessionState.ACCEPTED
    assert [step.study is not None for step in state.steps].count(True) == 1
    swept = next(step for step in state.steps if step.study)
    assert sessions.store.record(SweepTable, swept.sweep).rows
    assert state.best in (swept.candidate, swept.base)
    untuned = sessions.go(begin(sessions, max_steps=9, executor=executor))
    assert not any(step.study for step in untuned.steps)


class SpentProposer(ScriptedProposer):
    """Proposes its texts; a further call does not fit the budget."""

    def respond(self, request):
        answer = super().respond(request)
        if isinstance(answer, Finished):
            raise BudgetError("the next call may use 900 tokens, and 500 are left", Limit.TOKENS)
        return answer


@pytest.mark.parametrize("executor", [ExecutorKind.GPU, ExecutorKind.CPU])
def test_a_session_whose_tokens_are_spent_sweeps_its_best_first(sessions, executor):
    sessions.writes = SpentProposer((KERNEL,))
    session = begin(sessions, answered_by=AnsweredBy.LLM, max_steps=9, executor=executor)
    state = sessions.go(session)
    assert (state.status, state.reason) == (
        SessionState.EXHAUSTED,
        "the next call may use 900 tokens, and 500 are left",
    )
    assert [step.study is not None for step in state.steps] == [False, False, True, False]
    assert (state.steps[1].outcome, state.steps[1].note) == (Outcome.UNANSWERED, state.reason)
    assert state.steps[2].base == state.steps[0].candidate
    assert sessions.store.record(SweepTable, state.steps[2].sweep).rows
    raised = sessions.decide(session, DecisionKind.BUDGET, max_steps=9, max_tokens=10)
    assert [step.study is not None for step in raised.steps].count(True) == 1, "the best is swept once"


def test_what_a_person_asked_for_stays_open_where_tokens_are_spent(sessions):
    session = begin(sessions, answered_by=AnsweredBy.LLM, max_steps=9, autonomy=Autonomy.STEP, gates=())
    sessions.writes = ScriptedProposer((KERNEL,))
    assert sessions.go(session).gate.gate is Gate.INSTRUCTION
    sessions.writes = SpentProposer((KERNEL,))
    state = sessions.decide(session, DecisionKind.REDIRECT, text="use TMA")
    assert (state.status, state.open_step.instruction) == (SessionState.EXHAUSTED, "use TMA")
    assert not any(step.study for step in state.steps)


def test_a_models_kernel_is_swept_without_times_too_before_the_steps_end(sessions):
    state = sessions.go(begin(sessions, answered_by=AnsweredBy.LLM, executor=ExecutorKind.CPU))
    assert (state.status, len(state.steps)) == (SessionState.EXHAUSTED, 2)
    assert state.steps[1].sweep


def test_a_person_who_proposes_sweeps_by_hand(sessions):
    state = sessions.go(begin(sessions, answered_by=AnsweredBy.PERSON))
    assert (state.status, len(state.steps)) == (SessionState.EXHAUSTED, 1)
