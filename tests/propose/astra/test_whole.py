"""The whole mode without a model, everything real: the suite is written, checked with mutants and trusted, a change is
planned, coded, and judged at every shape."""

from __future__ import annotations

import pytest

from cutegen_core.evaluate.mutation.trust import MutantSample, SuiteCheck
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.records.decision import Autonomy
from cutegen_core.records.event import AnsweredBy, Outcome, Role, SessionState
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.trajectory.state import State
from cutegen_core.views import step_view
from tests.few_runs import few_runs
from tests.session.real_sessions import Loop, loop

SERVING = tuple(problem.name for problem in library.catalogue() if problem.existing)
FIRST = "silu_and_mul"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("astra")) as made:
        yield made


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "sample", "steps"),
    [
        (FIRST, MutantSample(1, 2), 2),
        *(pytest.param(n, MutantSample(), 40, marks=pytest.mark.thorough) for n in SERVING),
    ],
    ids=[f"{FIRST}, briefly", *SERVING],
)
def test_a_serving_kernel_walks_the_whole_mode_on_the_emulator(
    desk: Loop, name: str, sample: MutantSample, steps: int
) -> None:
    desk.tools.sample = sample
    session = desk.start(
        few_runs(name) if steps == 2 else name,
        strategy="astra",
        answered_by=AnsweredBy.PLAYBOOK,
        autonomy=Autonomy.AUTO,
        max_steps=steps,
    )
    state = desk.go(session)
    assert state.status is (SessionState.EXHAUSTED if steps == 2 else SessionState.ACCEPTED), state.reason
    assert (state.steps[0].idea, state.steps[0].outcome) == ("the existing kernel", Outcome.PROMOTED)
    check_suite_of(desk, state, sample)
    if can_write(desk, session):
        check_change(desk, session, state)


def check_suite_of(desk: Loop, state: State, sample: MutantSample) -> None:
    assert [suite.trusted for suite in state.suites][-1], state.suites[-1].message
    found = desk.store.record(SuiteCheck, state.suites[-1].result)
    assert found.table.score == 1.0
    assert len(found.table.rows) <= sample.tries
    added = desk.store.record(Problem, state.problem).workloads
    assert len(added) > len(desk.store.record(Problem, state.settings.problem).workloads)


def check_change(desk: Loop, session: str, state: State) -> None:
    changed = state.steps[1]
    assert [call.role for call in changed.calls] == [Role.TESTING, Role.PROFILING, Role.PLANNING, Role.CODING]
    assert (changed.outcome, state.suite_of(changed)) == (Outcome.PROMOTED, state.suites[-1])
    trial = step_view(desk.store, session, 2).trial
    assert trial is not None
    assert trial.correctness is not None
    judged = {verdict.workload for verdict in trial.correctness.verdicts}
    problem = desk.store.record(Problem, state.problem)
    assert {w.name for w in problem.with_role(WorkloadRole.EMULATOR)} <= judged, "the suite's workloads judge it"
    assert len(trial.correctness.sizes) == len(problem.with_role(WorkloadRole.BENCHMARK)), "a verdict a shape"


def can_write(desk: Loop, session: str) -> bool:
    """Tell whether the playbook has kernels for the problem; what it lacks it says."""
    evaluator = desk.bench(session).evaluator(desk.go(session))
    workload = evaluator.problem.with_role(WorkloadRole.BENCHMARK)[-1]
    try:
        playbook.propose(evaluator.graph(workload), evaluator.signature(workload), evaluator.problem.name)
    except NotInPlaybook:
        return False
    return True
