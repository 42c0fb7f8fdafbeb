"""Wrong kernels say why: each verdict and its message as the person reads them, through all the stages."""

from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.trial import Mark, Stage, Status
from tests.few_runs import few_runs
from tests.places import DATA
from tests.session.real_sessions import loop

RELU = (DATA / "relu.cu").read_text()
SUM = (DATA / "row_mean.cu").read_text()


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("wrong")) as desk:
        made = {}
        for problem in ("relu", "mean_reduction"):
            session = desk.start(few_runs(problem))
            state = views.session_view(desk.store, session).state
            made[problem] = replace(desk.tools.evaluator(session, state.settings), run_timeout_s=3.0)
        yield made


def changed(source, *pairs):
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


NO_BOUND = changed(RELU, ("if (i < n) ", ""))

# Kernels that are wrong or hostile in the usual ways are in `tests/adversarial`.
CASES = {
    "unknown kernel name": (changed(RELU, ('kernel = "relu<BLOCK>"', 'kernel = "rely<BLOCK>"')), "rely"),
    "malformed plan": (changed(RELU, ('["x", "out", "n"]', '["x", "out", "n"')), "line "),
    "unknown tensor in the plan": (changed(RELU, ('n = "x.numel"', 'n = "y.numel"')), "y"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_that_does_not_fit_says_why(benches, case):
    source, words = CASES[case]
    trial = benches["relu"].evaluate(Candidate(source, Author.PERSON), seed=11)
    assert (trial.status, words in trial.message) == (Status.REJECTED, True), f"{trial.status}: {trial.message}"
    assert trial.message == f"line {trial.diagnostics[0].line}: {trial.diagnostics[0].message}"  # the line once only


def test_a_failing_line_is_named(benches):
    trial = benches["relu"].evaluate(Candidate(NO_BOUND, Author.PERSON), seed=11)
    line = next(number for number, text in enumerate(NO_BOUND.splitlines(), 1) if "result(i) = " in text)
    finding = trial.correctness.first_failure.findings[0]
    assert (finding.kind, finding.variable, finding.line) == ("out-of-bounds", "x", line)
    assert trial.failed_stage is Stage.TEST


def test_a_right_kernel_passes_and_shows_what_it_cost(benches):
    trial = benches["mean_reduction"].evaluate(Candidate(SUM, Author.PERSON), seed=11)
    assert trial.status is Status.PASSED, trial.message
    assert trial.resources.kernels[0].registers > 0
    workloads = {workload.name for workload in benches["mean_reduction"].problem.workloads}
    assert {row.workload for row in trial.resources.occupancy} == workloads
    assert trial.marks == (Mark.NOT_TIMED,)
    assert trial.performance is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"/* cutegen \xff */", "byte 0xff is not UTF-8 text"),
        (b"/* cutegen */" + b" " * 10_000_000, "the file has 10.0 MB"),
        (b"", "the file is empty"),
    ],
    ids=["non-UTF-8", "10 MB", "empty"],
)
def test_what_is_no_kernel_file_says_so(data, words):
    with pytest.raises(KernelFileError, match=words):
        parse(data)
