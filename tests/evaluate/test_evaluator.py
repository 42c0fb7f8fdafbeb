"""What a trial keeps of what its stages found beside the verdict."""

import re
from dataclasses import replace

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.evidence import cost
from cutegen_core.evaluate.evidence.proof import proof
from cutegen_core.evaluate.stages import full_sizes, near_benchmark
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.performance import BEST
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Mark, Stage, Status
from cutegen_core.session.request import tried_event
from tests.places import DATA
from tests.session.clockwork import Clock, Timed, taking

RELU = (DATA / "relu.cu").read_text()
OFF = RELU.replace("isnan(in(i)) ? in(i) : 0.0f", "isnan(in(i)) ? in(i) : 0.005f")
SINGLE = """
import torch

size = 9

class Model(torch.nn.Module):
    def forward(self, x):
        if x.dtype is torch.float64:
            raise TypeError("single precision only")
        return torch.relu(x)

def get_inputs():
    return [torch.randn(size)]
"""
SMALL, LARGE = (Workload(f"size {n}", WorkloadRole.EMULATOR, {"size": n}) for n in (100, 3000))
OWN = Workload("own", WorkloadRole.BENCHMARK, {"size": 5000})


def evaluator_of(shared, name, source, workloads):
    problem = Problem(name, name, source, "here", workloads)
    judges = shared.reference(problem), shared.executor, shared.compiler(), choose_device("sm_90a")
    return Evaluator(problem, *judges, keep=lambda _: "kept")


@pytest.fixture(scope="module")
def evaluator(shared):
    return evaluator_of(shared, "single", SINGLE, (SMALL, LARGE, OWN))


def two_launches(source):
    """Return a second kernel for large inputs; the first one, for small ones, takes its input as writable."""
    plan, end, code = source.partition("*/\n")
    launch = plan[plan.index("[[launch]]") :].rstrip()
    kernel = code[code.index("template") :]
    plan = plan.replace(launch, f'{launch}\nwhen = "n < 1000"\n\n{launch.replace("relu<", "large<")}\nwhen = "n > 999"')
    return plan + end + code.replace("float const* x", "float* x") + kernel.replace("void relu(", "void large(")


def test_doubts_of_every_workload_are_kept_once(evaluator):
    found = evaluator.evaluate(Candidate(two_launches(RELU), Author.PERSON, None), seed=1)
    assert found.passed, found.message
    assert [d.message for d in found.diagnostics if d.tool == "plan"] == [
        "parameter 1 of relu is 'float*', but x is an input and is mapped read-only: write const"
    ]


def test_a_trial_says_that_nothing_was_held_against_float64(evaluator):
    found = evaluator.evaluate(Candidate(RELU, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    assert Mark.NO_FLOAT64 in found.marks
    note = next(stage.note for stage in found.stages if stage.stage is Stage.TEST)
    assert note == "not held against float64: here:9: TypeError: single precision only"


def test_a_trial_says_that_its_file_widens_the_tolerance(shared):
    wide = SINGLE.replace("            raise TypeError", "            return torch.relu(x)  #").replace(
        "relu(x)\n\n", "relu(x) + 0.01\n\n"
    )
    for source, marked in ((wide, True), (wide.replace(" + 0.01", ""), False)):
        wide_evaluator = evaluator_of(shared, "wide", source, (SMALL, OWN))
        found = wide_evaluator.evaluate(Candidate(OFF, Author.PERSON, None), seed=1)
        assert found.passed is marked, "the file lets a wrong kernel pass, and an exact one does not"
        assert (Mark.WIDE_TOLERANCE in found.marks) is marked
        told = [remark.text for section in proof(found) for remark in section.remarks]
        assert any("times the usual tolerance of out (workload" in text for text in told) is marked


def test_a_best_that_no_longer_builds_is_named_as_untimed(evaluator, tmp_path):
    executor = Timed(tmp_path)
    timed = replace(evaluator, executor=executor, timer=Clock())
    gone = Candidate(RELU.replace("[[launch]]", "[[lunch]]"), Author.PERSON, None)
    found = timed.evaluate(Candidate(taking(RELU, 40.0), Author.PERSON, None), seed=1, best=gone)
    assert found.passed, found.message
    assert found.performance.workloads[0].speedup(BEST) is None
    (untimed,) = found.performance.workloads[0].untimed
    assert untimed.contender == BEST
    assert untimed.reason.startswith("cannot be built any more: REJECTED: ")


ENDS_EARLY = RELU.replace("if (i < n)", "if (i < n && i < 4000)")
IN_THE_PLAN = RELU.replace("if (i < n)", "if (i < n && n < 4000)")


@pytest.mark.parametrize(
    "wrong",
    [ENDS_EARLY, pytest.param(IN_THE_PLAN, marks=pytest.mark.thorough)],
    ids=["ends early", "looks at the size"],
)
def test_the_benchmarks_size_is_judged_where_it_fits(evaluator, wrong):
    right = evaluator.evaluate(Candidate(RELU, Author.PERSON, None), seed=1)
    assert right.correctness.sizes == ("judged at the sizes of own",)
    found = evaluator.evaluate(Candidate(wrong, Author.PERSON, None), seed=1)
    assert (found.status, found.message.partition(":")[0]) == (Status.INCORRECT_NUMERICAL, "workload own, here")


ROW_MAXIMA = (
    SINGLE.replace("size = 9", "rows, dim = 5, 9")
    .replace("randn(size)", "randn(rows, dim)")
    .replace("torch.relu(x)", "x.amax(1)")
)
LONG_ROWS_BEGIN_AT_A_NUMBER = """/* cutegen
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "row_max"
grid = ["rows"]
block = [32]
args = ["x", "out", "cols"]
*/
__global__ void row_max(float const* x, float* out, int cols) {
  if (threadIdx.x != 0) return;
  float largest = cols > 1024 ? -100.0f : -INFINITY;
  for (int j = 0; j < cols; ++j) {
    float const value = x[long(blockIdx.x) * cols + j];
    largest = value > largest || value != value ? value : largest;
    if (largest != largest) break;
  }
  out[blockIdx.x] = largest;
}
"""


def test_code_of_long_rows_alone_meets_numbers_far_below_zero(shared):
    """The file's own values, and those of small workloads, show nothing of it."""
    source = ROW_MAXIMA.replace("if x.dtype is torch.float64:", "if False:")
    small, own = ({"rows": 4, "dim": 61}, {"rows": 8, "dim": 4096})
    workloads = (Workload("small", WorkloadRole.EMULATOR, small), Workload("own", WorkloadRole.BENCHMARK, own))
    trial = evaluator_of(shared, "rows", source, workloads).evaluate(
        Candidate(LONG_ROWS_BEGIN_AT_A_NUMBER, Author.PERSON, None), seed=1
    )
    assert trial.status is Status.INCORRECT_NUMERICAL, trial.message
    assert "all_negative values" in trial.message


def test_a_launch_that_no_run_makes_is_named(evaluator):
    text = two_launches(RELU).replace("n > 999", "n > 999999").replace("n < 1000", "n < 1000000")
    line = next(n for n, words in enumerate(text.splitlines(), 1) if "n > 999999" in words)
    found = evaluator.evaluate(Candidate(text, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    (said,) = found.correctness.sizes
    named = int(said.partition("no run makes the launch of line ")[2].partition(":")[0])
    assert text.splitlines()[named - 1] == "[[launch]]"
    assert named < line


def test_bank_conflicts_that_the_emulator_counted_stand_in_the_resources(evaluator):
    """Every thread puts its value where the bank is that of all others of its warp."""
    slow = RELU.replace(
        "  if (i < n) result(i) =", "  __shared__ float s[BLOCK * 32];\n  if (i < n) s[threadIdx.x * 32] ="
    )
    slow = slow.replace("0.0f;\n}", "0.0f;\n  __syncthreads();\n  if (i < n) result(i) = s[threadIdx.x * 32];\n}")
    found = evaluator.evaluate(Candidate(slow, Author.PERSON, None), seed=1)
    assert found.status is Status.PASSED, found.message
    [access] = found.resources.shared
    assert 30 < access.conflicts <= 32, "the last warp has less to do"
    assert "s[threadIdx.x * 32]" in slow.splitlines()[access.line - 1]
    words = (
        f"shared memory served {access.conflicts:.3g}x as often as needed (bank conflicts, most at line {access.line})"
    )
    assert words in cost.one_line(found.resources, ["own"])
    assert tried_event(_Kept(), 1, found).bank_conflicts == access.conflicts


MEETS = """/* cutegen
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "rows_of_warps"
grid = ["rows"]
block = [32]
args = ["x", "out", "cols"]
*/
// A warp a row, which meets at every column.
__global__ void rows_of_warps(float const* x, float* out, int cols) {
  for (int j = 0; j < cols; ++j) {
    __syncwarp();
    if (threadIdx.x == j % 32) {
      float const value = x[(long)blockIdx.x * cols + j];
      out[(long)blockIdx.x * cols + j] = value > 0 || value != value ? value : 0.0f;
    }
  }
}
"""
MEETINGS = 1 << 21


def test_what_a_run_near_the_benchmark_took_bounds_those_that_follow(shared, monkeypatch):
    """Small runs meet ten times a thread; the first run near the benchmark shows that wide rows meet more often."""
    monkeypatch.setattr(full_sizes, "MOST_SWITCHES", MEETINGS)
    source = SINGLE.replace("size = 9", "rows, cols = 9, 9").replace("randn(size)", "randn(rows, cols)")
    workloads = (
        Workload("small", WorkloadRole.EMULATOR, {"rows": 10, "cols": 10}),
        Workload("large", WorkloadRole.BENCHMARK, {"rows": 4096, "cols": 4096}),
    )
    found = evaluator_of(shared, "meets", source, workloads).evaluate(Candidate(MEETS, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    near = dict.fromkeys(
        verdict.workload.partition(" at ")[2].partition(", dom")[0]
        for verdict in found.correctness.verdicts
        if verdict.workload.startswith("large at")
    )
    sizes = [{"rows": "4096", "cols": "4096", **dict(re.findall(r"(\w+) = (\d+)", text))} for text in near]
    elements = [int(one["rows"]) * int(one["cols"]) for one in sizes]
    assert elements == [1 << 20, 1 << 16], "the first one met 16 times as often as it should"


TOGETHER = """/* cutegen
[let]
n = "x.numel"
[[launch]]
kernel = "relu"
grid = ["ceil_div(n, 128)"]
block = [128]
args = ["x", "out", "n"]
*/
__global__ void relu(float const* x, float* out, long n) {
  long const i = blockIdx.x * 128l + threadIdx.x;
  float value = i < n ? x[i] : 0.0f;
  unsigned const together = __activemask();
  for (int k = 0; k < 2; ++k) value = __shfl_sync(together, value, OTHER);
  if (i < n) out[i] = value > 0 || value != value ? value : 0.0f;
}
"""


@pytest.mark.parametrize(("other", "right"), [("threadIdx.x ^ 1", False), ("threadIdx.x & 31", True)])
def test_lanes_that_happen_to_be_together_need_not_be(evaluator, other, right):
    found = evaluator.evaluate(Candidate(TOGETHER.replace("OTHER", other), Author.PERSON, None), seed=1)
    assert found.passed == right, found.message
    assert ("active mask" in found.message) == (not right)


class _Kept:
    """A store that keeps a trial nowhere."""

    def put(self, text):
        return "kept"


def test_a_kernel_too_slow_for_the_emulator_is_not_blamed_for_the_benchmarks_size(evaluator):
    """It passes the tests within its time and would need minutes near the benchmark's size."""
    slow = RELU.replace("if (i < n)", "for (volatile long k = 0; n > 4000 && k < (1l << 40); ++k) {}\n  if (i < n)")
    found = replace(evaluator, run_timeout_s=0.5).evaluate(Candidate(slow, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    assert found.correctness.sizes == ("judged up to size = 10 of 5000; the sizes of own together were not run here",)


def test_a_trial_says_that_nothing_ran_near_the_benchmarks_sizes(evaluator):
    endless = "for (volatile long k = 0; n != 100 && n != 3000 && k < (1l << 40); ++k) {}"
    slow = RELU.replace("if (i < n)", f"{endless}\n  if (i < n)")
    found = replace(evaluator, run_timeout_s=0.5).evaluate(Candidate(slow, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    assert found.correctness.sizes == ("the sizes of own, or any near them, were not run here",)
    assert Mark.SMALL_SIZES in found.marks
    assert Mark.SMALL_SIZES not in evaluator.evaluate(Candidate(RELU, Author.PERSON, None), seed=1).marks


MANY_THREADS = """/* cutegen
[let]
n = "x.numel"
[[launch]]
kernel = "relu"
grid = ["n"]
block = [128]
args = ["x", "out", "n"]
*/
__global__ void relu(float const* x, float* out, long n) {
  __shared__ float value;
  if (threadIdx.x == 0) value = x[blockIdx.x];
  __syncthreads();
  if (threadIdx.x == 1) out[blockIdx.x] = value > 0 || value != value ? value : 0.0f;
}
"""


@pytest.mark.thorough
def test_a_size_that_fits_is_smaller_for_a_kernel_with_more_threads_than_the_emulator_affords(evaluator):
    found = evaluator.evaluate(Candidate(MANY_THREADS, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    assert found.correctness.sizes == ("judged up to size = 1250 of 5000; the sizes of own together were not run here",)


def test_sizes_in_which_several_ladders_end_run_once(shared, monkeypatch):
    """The kernel is taken for one whose threads wait too often for more than the smallest run of each ladder."""
    monkeypatch.setattr(near_benchmark, "OFTEN", -1)
    monkeypatch.setattr(full_sizes, "MOST_SWITCHES", -1)
    source = SINGLE.replace("size = 9", "a, b, c, d = 9, 9, 9, 9").replace("randn(size)", "randn(a, b, c, d)")
    workloads = tuple(
        Workload(f"{n}", role, dict.fromkeys("abcd", n))
        for n, role in ((10, WorkloadRole.EMULATOR), (640, WorkloadRole.BENCHMARK))
    )
    found = evaluator_of(shared, "four", source, workloads).evaluate(Candidate(RELU, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    near = [verdict.workload for verdict in found.correctness.verdicts if verdict.workload.startswith("640 at")]
    assert near
    assert len(near) == len(set(near))


def test_a_launch_that_only_larger_sizes_make_runs_at_the_smallest_of_these(shared, monkeypatch):
    """The smallest sizes near the benchmark are no multiples of 64, which its second kernel is for."""
    monkeypatch.setattr(near_benchmark, "OFTEN", -1)
    monkeypatch.setattr(full_sizes, "MOST_SWITCHES", -1)
    source = SINGLE.replace("size = 9", "a, b = 9, 9").replace("randn(size)", "randn(a, b)")
    workloads = tuple(
        Workload(f"{n}", role, dict.fromkeys("ab", n))
        for n, role in ((10, WorkloadRole.EMULATOR), (4096, WorkloadRole.BENCHMARK))
    )
    kernel = two_launches(RELU).replace("n < 1000", "x.shape[1] % 64 > 0").replace("n > 999", "x.shape[1] % 64 == 0")
    judge = evaluator_of(shared, "two", source, workloads)
    found = judge.evaluate(Candidate(kernel, Author.PERSON, None), seed=1)
    assert found.passed, found.message
    near = [verdict.workload for verdict in found.correctness.verdicts if verdict.workload.startswith("4096 at")]
    assert any(int(re.search(r"b = (\d+)", name)[1]) % 64 == 0 for name in near if "b = " in name)
    first, large = kernel.split("void large(")
    wrong = f"{first}void large({large.replace('0.0f', '0.005f')}"
    found = judge.evaluate(Candidate(wrong, Author.PERSON, None), seed=1)
    assert found.status is Status.INCORRECT_NUMERICAL
