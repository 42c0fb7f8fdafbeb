"""Defects of the published implementation, one test each: none of them can happen here."""

from dataclasses import dataclass, replace

import pytest

from cutegen_core import views
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.records.event import (
    AnsweredBy,
    ModelAnswered,
    Outcome,
    Proposed,
    Role,
    SessionState,
    StageEnded,
    StateChanged,
    StepClosed,
    StepStarted,
    TrialStarted,
    Tried,
)
from cutegen_core.records.problem import DEFAULT_TOLERANCE, WorkloadRole
from cutegen_core.records.trial import Stage, Status
from cutegen_core.session.loop import Session
from cutegen_core.wiring import ToolsOfSession
from tests.few_runs import few_runs
from tests.places import DATA
from tests.session.real_sessions import Loop, loop

RELU = (DATA / "relu.cu").read_text()
TWICE = RELU.replace("*/", RELU[RELU.index("\n[[launch]]") : RELU.index("*/")] + "*/", 1)
"""The same launch twice: right, and twice the estimate."""
RESULT = "result(i) = in(i) > 0.0f || isnan(in(i)) ? in(i) : 0.0f;"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("defects")) as made:
        yield made


def by_hand(desk, problem=None, **options):
    """Return a session whose prompts a person carries; it waits nowhere else."""
    session = desk.start(problem or few_runs("relu"), answered_by=AnsweredBy.PERSON, gates=(), **options)
    desk.go(session)
    return session


def whole(idea, source):
    return f"Idea: {idea}\n```cpp\n{source}```\n"


def told(desk, session, *replies):
    for text in replies:
        state = desk.decide(session, DecisionKind.REPLY, text=text)
    return state


def timed(step, candidate, latency_ms):
    """Return a step that passed and was timed, as a machine with a GPU writes it."""
    return (
        StepStarted(step, None),
        Proposed(step, candidate, Author.MODEL, f"idea {step}"),
        TrialStarted(step, candidate),
        Tried(step, candidate, "", Status.PASSED, latency_ms=latency_ms),
    )


@pytest.mark.parametrize(("later_ms", "outcome"), [(1.3, Outcome.KEPT), (0.7, Outcome.PROMOTED)])
def test_it_never_goes_on_from_a_slower_later_kernel(desk, later_ms, outcome):
    """Published: the latest passing kernel is the base of the next step, even when it is slower than the best."""
    first, later = desk.store.put(RELU), desk.store.put(RELU + f"// {later_ms}\n")
    session = desk.start("relu", answered_by=AnsweredBy.PERSON, autonomy=Autonomy.AUTO)
    events = [*timed(1, first, 1.0), StepClosed(1, Outcome.PROMOTED), *timed(2, later, later_ms)]
    desk.store.append(session, events, after=1)
    desk.store.append(session, [StateChanged(SessionState.RUNNING)], after=1 + len(events))

    state = Session(desk.store, session, desk.bench(session))
    state.turn()
    best = later if outcome is Outcome.PROMOTED else first
    assert state.state.steps[1].outcome is outcome
    assert (state.state.best, state.state.base) == (best, best)
    state.turn()
    assert state.state.steps[2].base == best
    if outcome is Outcome.KEPT:
        assert "the best takes 1 ms" in state.state.steps[1].note


def test_malformed_edits_do_not_end_the_chain(desk):
    """Published: JSON edits that do not parse end the chain of repairs."""
    session = by_hand(desk)
    malformed = (
        '{"edits": [{"line": 3, "text": "',
        "<<<<<<< SEARCH\nnowhere\n=======\nelse\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\nhalf a block",
    )
    state = told(
        desk, session,
        whole("seed", RELU),
        *[bad for bad in malformed for _ in range(2)],
        whole("vectorise", RELU.replace("in(i) > 0.0f", "0.0f < in(i)")),
    )  # fmt: skip
    failures = [Status.UNPARSED, Status.PATCH_FAILED, Status.PATCH_FAILED]
    assert [s.status for s in state.steps[:5]] == [Status.PASSED, *failures, Status.PASSED]
    assert state.steps[4].base == state.best == state.steps[0].candidate
    assert state.steps[4].outcome is Outcome.KEPT
    assert state.gate.gate is Gate.REPLY


def test_every_repair_that_was_paid_for_is_evaluated_and_then_the_best_is_back(desk):
    """Published: the fifth repair is asked for, paid, and thrown away."""
    session = by_hand(desk)
    broken = [RELU.replace("{\n  auto in", f"{{\n  cudaMalloc({n}, 0);\n  auto in") for n in range(4)]
    state = told(desk, session, whole("seed", RELU), *(whole("vectorise", source) for source in broken))

    events = [r.event for r in desk.store.events(session)]
    repairs = [e.step for e in events if isinstance(e, ModelAnswered) and e.role is Role.REPAIR]
    tried = {e.step: e.status for e in events if isinstance(e, Tried)}
    assert repairs == [3, 4, 5]
    assert [tried[step] for step in repairs] == [Status.REJECTED] * 3
    assert state.best == state.steps[0].candidate
    assert (state.open_step.base, state.open_step.repair) == (state.best, False)
    assert state.gate.role is Role.PROPOSER


@dataclass(frozen=True)
class Hasty:
    """The tools of a session on a machine so busy that nothing ends in time."""

    bench: ToolsOfSession

    def proposer(self, state):
        return self.bench.proposer(state)

    def model(self, state, role=None):
        return self.bench.model(state, role)

    def evaluator(self, state):
        return replace(self.bench.evaluator(state), run_timeout_s=0.0005)


def test_one_time_out_does_not_poison_a_kernel(desk):
    """Published: a node that ran into its time limit once is lost, with everything after it."""
    source = RELU.replace("default = 256", "default = 512").replace("one thread", "512 threads")
    session = by_hand(desk)
    state = views.session_view(desk.store, session).state
    desk.store.submit(session, _edit(state, source))
    state = Session(desk.store, session, Hasty(desk.bench(session))).run()
    assert state.steps[1].status is Status.TIMEOUT
    assert state.best is None

    state = desk.decide(session, DecisionKind.EDIT, source=source, candidate=state.steps[1].candidate)
    again = next(s for s in reversed(state.steps) if s.tried)
    assert (again.status, again.candidate) == (Status.PASSED, state.steps[1].candidate)
    assert state.best == again.candidate
    assert not views.step_view(desk.store, session, again.number).trial.cached


def _edit(state, source):
    return Decision(DecisionKind.EDIT, state.seq, source=source)


def test_a_step_can_be_undone_and_a_session_goes_on_in_another_process(desk):
    """Published: no undo, no resume."""
    session = by_hand(desk)
    state = told(desk, session, whole("seed", TWICE), whole("vectorise", RELU))
    first, second = state.steps[0].candidate, state.steps[1].candidate
    assert state.best == second
    state = desk.decide(session, DecisionKind.REWIND, step=1)
    assert (state.best, state.base) == (first, first)
    assert [s.candidate for s in state.steps[:2]] == [first, second]

    elsewhere = Loop(desk.store.path.parent)
    try:
        state = told(elsewhere, session, whole("coalesce", RELU.replace("in(i) > 0.0f", "0.0f < in(i)")))
        assert state.steps[3].base == first
        assert state.steps[3].status is Status.PASSED
    finally:
        elsewhere.close()


def test_no_child_sees_a_key(monkeypatch, tmp_path):
    """Published: generated Python runs with the person's keys in its environment."""
    for name in ("OPENAI_API_KEY", "CUTEGEN_API_KEY", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "sk-canary")
    assert "sk-canary" not in str(child_environment(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param(RELU.replace(": 0.0f;", ": 0.005f;"), "", id="off by less than 1e-2"),
        pytest.param(RELU.replace('n = "x.numel"', 'n = "1024"'), "", id="right for one shape only"),
        pytest.param(RELU.replace(RESULT, "result(i) = in(i);"), "", id="right for positive inputs only"),
    ],
)
def test_one_shape_one_seed_and_a_loose_tolerance_are_not_enough(desk, wrong, words):
    """Published: tolerance 1e-2 for everything, one seed, one shape."""
    assert DEFAULT_TOLERANCE["float32"].atol < 1e-3
    session = by_hand(desk, "relu")
    state = desk.decide(session, DecisionKind.EDIT, source=wrong)
    tried = next(s for s in state.steps if s.tried)
    assert tried.status not in (Status.PASSED, Status.REJECTED, Status.COMPILE_ERROR)
    assert words in tried.tried.message
    assert state.best is None


def test_a_kernel_is_tested_on_several_shapes_and_accepted_on_other_values(desk):
    few = few_runs("relu")
    small = [w for w in library.load("relu").workloads if w.name in ("one", "ragged", "tile")]
    session = by_hand(desk, replace(few, workloads=(*small, *few.with_role(WorkloadRole.BENCHMARK))))
    state = told(desk, session, whole("seed", RELU))
    before = views.step_view(desk.store, session, 1).trial.correctness.verdicts
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=state.best)
    assert state.status is SessionState.ACCEPTED
    after = views.acceptance_trial(desk.store, state).correctness.verdicts
    assert len({verdict.workload for verdict in before}) >= 3
    assert {v.seed for v in before}.isdisjoint({v.seed for v in after})
    stages = [e.event.result for e in desk.store.events(session) if isinstance(e.event, StageEnded)]
    assert any(result.stage is Stage.TEST and result.note != "from cache" for result in stages)
