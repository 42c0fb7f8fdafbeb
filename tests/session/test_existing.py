"""The kernel that a problem begins with is tested once, timed beside every candidate, and never ends a trial."""

from dataclasses import replace

import pytest

from cutegen_core.evaluate.evidence import speed
from cutegen_core.records.decision import DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Outcome
from cutegen_core.records.performance import EXISTING, Word
from cutegen_core.records.trial import Mark, Status, Trial
from tests.few_runs import few_runs
from tests.places import DATA
from tests.session.clockwork import TimedLoop, taking

RELU = (DATA / "relu.cu").read_text()
NAIVE = taking(RELU.replace("BLOCK = { default = 256", "BLOCK = { default = 128"), 50.0)
WRONG = taking(RELU.replace("in(i) > 0.0f", "in(i) > 0.5f"), 50.0)
UNCOMPILABLE = taking(RELU.replace("result(i) =", "result(i) = missing *"), 50.0)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    made = TimedLoop(tmp_path_factory.mktemp("existing"))
    yield made
    made.close()


def begun_with(desk, existing):
    problem = replace(few_runs("relu"), existing=existing)
    session = desk.start(problem, gates=(Gate.DIFF,), answered_by=AnsweredBy.PERSON)
    desk.go(session)
    return session


def tried(desk, session, source):
    step = desk.decide(session, DecisionKind.EDIT, source=source).steps[-2]
    assert (step.status, step.outcome) == (Status.PASSED, Outcome.PROMOTED)
    return desk.store.record(Trial, step.tried.trial)


def words(trial):
    return [remark.text for section in speed.speed(trial) for remark in section.remarks]


def test_it_is_timed_beside_every_candidate_and_built_for_the_first_one_only(desk):
    session = begun_with(desk, NAIVE)
    first = tried(desk, session, taking(RELU, 40.0))
    (workload,) = first.performance.workloads
    assert [t.contender for t in workload.timings] == ["candidate", "existing", "eager"]
    assert workload.speedup(EXISTING).word is Word.FASTER
    assert "1.25x faster than the existing kernel" in " ".join(words(first))
    kept = [contest.existing for contest in desk.clock.contests if contest.existing]
    tried(desk, session, taking(RELU, 30.0))
    assert len([c for c in desk.clock.contests if c.existing]) == 2 * len(kept)
    judges = desk.tools._judges[session]
    assert judges.existing.prepare(lambda: pytest.fail("tested again")).built.status is Status.PASSED


def test_the_existing_kernel_itself_is_not_timed_against_itself(desk):
    (workload,) = tried(desk, begun_with(desk, NAIVE), NAIVE).performance.workloads
    assert [t.contender for t in workload.timings] == ["candidate", "eager"]


@pytest.mark.parametrize(
    ("existing", "reason"),
    [
        (UNCOMPILABLE, "it does not pass: COMPILE_ERROR: "),
        (WRONG, "it does not pass: INCORRECT_NUMERICAL: "),
        ("no kernel file", "it does not pass: REJECTED: "),
    ],
    ids=["uncompilable", "wrong", "no kernel file"],
)
def test_one_that_does_not_pass_is_said_and_the_candidate_is_timed_without_it(desk, existing, reason):
    trial = tried(desk, begun_with(desk, existing), taking(RELU, 40.0))
    (workload,) = trial.performance.workloads
    assert [t.contender for t in workload.timings] == ["candidate", "eager"]
    assert [(u.contender, u.reason.startswith(reason)) for u in workload.untimed] == [(EXISTING, True)]
    assert f"existing kernel: not measured ({reason}" in "\n".join(words(trial))
    assert not {Mark.CONFIRM, Mark.NOT_TIMED} & set(trial.marks)
