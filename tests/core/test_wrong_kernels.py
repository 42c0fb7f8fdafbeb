"""Wrong kernels say why: each verdict and its message as the person reads them, through all the stages."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.candidate import Author, Candidate
from cutegen_core.errors import KernelFileError
from cutegen_core.kernel_file import parse
from cutegen_core.trial import Stage, Status
from tests.core.loop import loop

DATA = Path(__file__).parent.parent / "data"
RELU = (DATA / "relu.cu").read_text()
SUM = (DATA / "row_mean.cu").read_text()


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("wrong")) as desk:
        made = {}
        for problem in ("relu", "mean_reduction"):
            session = desk.start(problem)
            state = views.session_view(desk.store, session).state
            made[problem] = replace(desk.tools.evaluator(session, state.settings), run_timeout_s=3.0)
        yield made


def changed(source, *pairs):
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


LOOP = "unsigned spin = 1; while (spin != blockDim.x) spin = spin * 2654435761u | 1u; if (spin == 7u) return;\n"

CASES = {
    "wrong argument count": (
        "relu",
        changed(RELU, ('["x", "out", "n"]', '["x", "out"]')),
        Status.LAUNCH_ERROR,
        "relu expects 3 parameters (float const*, float*, long), the plan gives 2",
    ),
    "wrong dtype": (
        "relu",
        changed(RELU, ("float const* x", "int const* x"), ("0.0f ? in(i) : 0.0f", "0 ? in(i) : 0")),
        Status.LAUNCH_ERROR,
        "float32",
    ),
    "missing tail": (
        "relu",
        changed(RELU, ('ceil_div(n, BLOCK)"', 'max(1, n // BLOCK)"')),
        Status.INCORRECT_NUMERICAL,
        "wrong",
    ),
    "no bound on the last block": (
        "relu",
        changed(RELU, ("if (i < n) ", "")),
        Status.MEMORY_ERROR,
        "reads x out of bounds",
    ),
    "missing barrier": (
        "mean_reduction",
        changed(SUM, ("  partial[threadIdx.x] = sum;\n  __syncthreads();\n", "  partial[threadIdx.x] = sum;\n")),
        Status.MEMORY_ERROR,
        "partial",
    ),
    "divergent barrier": (
        "mean_reduction",
        changed(
            SUM, ("  partial[threadIdx.x] = sum;\n", "  partial[threadIdx.x] = sum;\n  if (threadIdx.x > 5) return;\n")
        ),
        Status.MEMORY_ERROR,
        "has left the kernel without reaching it",
    ),
    "endless loop": (
        "relu",
        changed(RELU, ("  long i = ", f"  {LOOP}  long i = ")),
        Status.TIMEOUT,
        "endless loop",
    ),
    "2 MB shared memory": (
        "relu",
        changed(RELU, ('block  = ["BLOCK"]', 'block  = ["BLOCK"]\nsmem   = "2 * 1024 * 1024"')),
        Status.REJECTED,
        "2097152",
    ),
    "2 MB static shared memory": (
        "relu",
        changed(
            RELU,
            ("  long i = ", "  __shared__ float big[524288]; big[threadIdx.x] = x[0]; __syncthreads();\n  long i = "),
            ("in(i) : 0.0f", "in(i) : 0.0f * big[n % 7]"),
        ),
        Status.COMPILE_ERROR,
        "too much shared data",
    ),
    "unknown kernel name": (
        "relu",
        changed(RELU, ('kernel = "relu<BLOCK>"', 'kernel = "rely<BLOCK>"')),
        Status.REJECTED,
        "rely",
    ),
    "malformed plan": ("relu", changed(RELU, ('["x", "out", "n"]', '["x", "out", "n"')), Status.REJECTED, "line "),
    "unknown tensor in the plan": ("relu", changed(RELU, ('n = "x.numel"', 'n = "y.numel"')), Status.REJECTED, "y"),
    "host code": ("relu", RELU + "\nint main() { return 0; }\n", Status.REJECTED, "there is no main"),
    "an include of a private file": (
        "relu",
        changed(RELU, ("#include <cute/tensor.hpp>", '#include <cute/tensor.hpp>\n#include "/etc/passwd"')),
        Status.REJECTED,
        "include",
    ),
    "relaxed math nobody allowed": (
        "relu",
        changed(RELU, ("*/\n#include", '\n[numerics]\nallow = ["fast_math"]\n*/\n#include')),
        Status.REJECTED,
        "does not allow fast_math",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_says_why(benches, case):
    problem, source, status, words = CASES[case]
    trial = benches[problem].evaluate(Candidate(source, Author.PERSON), seed=11)
    assert (trial.status, words in trial.message) == (status, True), f"{trial.status}: {trial.message}"


def test_a_failing_line_is_named(benches):
    _, source, _, _ = CASES["no bound on the last block"]
    trial = benches["relu"].evaluate(Candidate(source, Author.PERSON), seed=11)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "result(i) = " in text)
    finding = trial.correctness.first_failure.findings[0]
    assert (finding.kind, finding.variable, finding.line) == ("out-of-bounds", "x", line)
    assert trial.failed_stage is Stage.TEST


def test_a_right_kernel_passes_and_shows_what_it_cost(benches):
    trial = benches["mean_reduction"].evaluate(Candidate(SUM, Author.PERSON), seed=11)
    assert trial.status is Status.PASSED, trial.message
    assert trial.resources.kernels[0].registers > 0
    workloads = {workload.name for workload in benches["mean_reduction"].problem.workloads}
    assert {row.workload for row in trial.resources.occupancy} == workloads
    assert trial.marks == ("NOT_TIMED",)
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
