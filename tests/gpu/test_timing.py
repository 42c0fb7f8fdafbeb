"""On a machine with a GPU: right kernels are timed beside their baselines, others get their verdict at full size."""

import threading
from dataclasses import replace
from statistics import median

import pytest

from benchmarks.timing.first_use import recorded
from cutegen_core.evaluate.timing import contenders
from cutegen_core.evaluate.timing.contest import Contest, Entry, Race
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda import lock
from cutegen_core.execute.cuda.program import Function, make_program
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import detect
from cutegen_core.problems import library
from cutegen_core.records.errors import ProblemError, StoppedError
from cutegen_core.records.performance import BEST, CANDIDATE, COMPILED, EAGER, EXISTING, Word
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from cutegen_core.records.trial import Mark, Status

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]

ROWS = Workload("rows", WorkloadRole.BENCHMARK, {"batch_size": 512})
PLAN = """/* cutegen
[let]
n = "x.numel"

[[launch]]
kernel = "relu"
grid   = ["ceil_div(n, 1024)"]
block  = ["256"]
args   = ["x", "out", "n"]
*/
"""
BODY = """
__global__ void relu(float const* x, float* out, long n) {
  for (long i = blockIdx.x * 1024 + threadIdx.x; i < min(n, long(blockIdx.x) * 1024 + 1024); i += 256)
    out[i] = x[i] < 0.0f ? 0.0f : x[i];
}
"""
SLOW = BODY.replace(": x[i];", ": x[i]; for (int k = 0; k < 200; ++k) __nanosleep(20);")
TAIL = BODY.replace("min(n,", "min(n - 5,")
COUNTS = """
__device__ unsigned calls;
__global__ void relu(float const* x, float* out, long n) {
  if (calls < 3 * gridDim.x)
    for (long i = blockIdx.x * 1024 + threadIdx.x; i < min(n, long(blockIdx.x) * 1024 + 1024); i += 256)
      out[i] = fmaxf(x[i], 0.0f);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&calls, 1);
}
"""
CACHES = """
__device__ float kept[1 << 23];
__device__ unsigned done[1 << 13];
__global__ void relu(float const* x, float* out, long n) {
  bool again = done[blockIdx.x];
  __syncthreads();
  for (long i = blockIdx.x * 1024 + threadIdx.x; i < min(n, long(blockIdx.x) * 1024 + 1024); i += 256)
    out[i] = kept[i] = again ? kept[i] : fmaxf(x[i], 0.0f);
  if (threadIdx.x == 0) done[blockIdx.x] = 1;
}
"""
BEYOND = BODY.replace("out[i] =", "out[i + (i == n - 1) * (1L << 20)] =")
ENDLESS = BODY.replace("for (long i", "while (x[0] == x[0]) __nanosleep(100);\n  for (long i")


class Silent:
    def say(self, text): ...

    def stopped(self):
        return False


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timing")
    file = folder / "relu.py"  # a file of the user's, which the judge may not open
    file.write_text(next(p for p in library.catalogue() if p.name == "relu").source)
    with Reference(library.load(str(file)), folder) as reference, Timer(reference, detect()) as timer:
        yield timer


@pytest.fixture(scope="module")
def compiled(bench):
    compiler = Compiler(bench.device.arch)

    def entry(body, workload=ROWS):
        kernel = parse(PLAN + body)
        built = compiler.compile(kernel)
        assert built.lowered, built.log
        plan = kernel.plan(bench.reference.signature(workload), bench.device, kernel.defaults())
        functions = {name: Function(mangled, demangle(mangled)) for name, mangled in built.lowered.items()}
        return Entry(built.cubin, make_program(plan, functions))

    yield entry
    compiler.close()


def alone(entry, **more):
    return Contest(ROWS, 1, entry, **({"baselines": False, "remeasure": False} | more))


def test_a_right_kernel_is_timed_beside_its_baselines(bench, compiled):
    measured = bench.measure(Contest(ROWS, 7, compiled(BODY)), Silent())
    assert measured.failure is None, measured.failure
    performance = measured.performance
    assert [t.contender for t in performance.timings] == [CANDIDATE, EAGER, COMPILED]
    assert all(t.n >= 30 and t.p10_us <= t.median_us <= t.p90_us for t in performance.timings)
    assert measured.executions > performance.candidate.n
    assert [c.wrong for c in measured.comparisons] == [0]
    assert performance.remeasured_us == pytest.approx(performance.candidate.median_us, rel=0.1)
    conditions = performance.conditions
    assert conditions.other_processes == 0
    assert 100 < conditions.sm_clock_mhz[0] <= conditions.sm_clock_mhz[1]
    assert conditions.flushed_bytes >= 2 * bench.device.l2_bytes
    assert performance.candidate.median_us > 8 * ROWS.sizes["batch_size"] * 16384 / 8e12 * 1e6


def test_itself_is_the_same_and_a_slow_one_is_slower(bench, compiled):
    quick, slow = compiled(BODY), compiled(SLOW)
    assert bench.measure(alone(quick, best=quick), Silent()).performance.speedup(BEST).word is Word.SAME
    assert bench.measure(alone(slow, best=quick), Silent()).performance.speedup(BEST).word is Word.SLOWER
    assert bench.measure(alone(quick, best=slow), Silent()).performance.speedup(BEST).word is Word.FASTER


@pytest.mark.parametrize("body", [TAIL, COUNTS])
def test_wrong_outputs_are_found_in_the_first_run_or_in_a_timed_one(bench, compiled, body):
    failure = bench.measure(alone(compiled(body)), Silent()).failure
    assert failure.status is Status.INCORRECT_NUMERICAL
    assert ("timed run" in failure.message) == (body is COUNTS)


def test_results_kept_from_one_set_are_of_no_use_for_the_next(bench, compiled):
    assert bench.measure(alone(compiled(CACHES)), Silent()).failure.status is Status.INCORRECT_NUMERICAL


@pytest.mark.parametrize(
    ("body", "status"),
    [(BEYOND, {Status.MEMORY_ERROR, Status.RUNTIME_ERROR}), (ENDLESS, {Status.TIMEOUT})],
    ids=["beyond", "endless"],
)  # fmt: skip
def test_a_fault_is_the_candidates_and_the_next_one_is_timed(bench, compiled, monkeypatch, body, status):
    monkeypatch.setattr(contenders, "RUN_S", 2.0)
    assert bench.measure(alone(compiled(body)), Silent()).failure.status in status
    assert lock.find_holder(bench.device.uuid) is None
    assert bench.measure(alone(compiled(BODY)), Silent()).performance is not None


def test_the_candidate_is_not_charged_for_the_first_use_of_memory(bench, compiled):
    """A kernel of a few microseconds took a seventh longer."""
    few_rows, rows = replace(ROWS, name="few rows", sizes={"batch_size": 32}), []
    with recorded("relu", rows):
        measured = bench.measure(replace(alone(compiled(BODY, few_rows)), workload=few_rows), Silent())
    assert measured.failure is None
    assert rows[0]["first_to_others"][CANDIDATE] < 1.07


def test_a_best_that_fails_is_untimed(bench, compiled):
    performance = bench.measure(alone(compiled(BODY), best=compiled(BEYOND)), Silent()).performance
    assert [u.contender for u in performance.untimed] == [BEST]


def test_what_does_not_fit_is_not_timed(bench, compiled):
    huge = Workload("huge", WorkloadRole.BENCHMARK, {"batch_size": 1 << 22})
    measured = bench.measure(replace(alone(compiled(BODY)), workload=huge), Silent())
    assert measured.marks == (Mark.NOT_TIMED,)
    assert "GiB" in measured.not_timed


@pytest.mark.parametrize("values", [v for v in Values if v is not Values.GIVEN])
def test_hard_values_are_drawn_on_the_gpu(bench, compiled, values):
    hard = replace(ROWS, name=values.value, values=values)
    measured = bench.measure(replace(alone(compiled(BODY)), workload=hard), Silent())
    assert measured.performance is not None, measured.failure


def single_precision(fails):
    """Return a reference that cannot run in float64."""
    return (
        "import torch\nbatch_size = 512\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        if x.dtype is torch.float64:\n            {fails}\n        return torch.relu(x)\n"
        "def get_inputs():\n    return [torch.randn(batch_size, 16384)]\n"
    )


def test_memory_that_runs_out_in_float64_leaves_it_unjudged_at_its_size(tmp_path, compiled):
    source = single_precision("torch.empty(1 << 50, dtype=torch.uint8)")
    problem = Problem("large", "", source, "large.py", (ROWS,))
    with Reference(problem, tmp_path) as reference, Timer(reference, detect()) as timer:
        for _ in range(2):
            measured = timer.measure(alone(compiled(BODY)), Silent())
            assert measured.marks == (Mark.NOT_TIMED,)
            assert measured.comparisons == ()
            assert "not judged at its own size: the reference and its float64 copy need more" in measured.not_timed


def test_a_reference_without_float64_is_said_in_the_comparison(tmp_path, compiled):
    problem = Problem("single", "", single_precision("raise TypeError('single')"), "single.py", (ROWS,))
    with Reference(problem, tmp_path) as reference, Timer(reference, detect()) as timer:
        measured = timer.measure(alone(compiled(BODY)), Silent())
    assert measured.performance is not None, measured.failure
    assert [c.no_float64 for c in measured.comparisons] == ["single.py:6: TypeError: single"]


def test_the_person_can_stop_it(bench, compiled):
    class Impatient(Silent):
        def __init__(self):
            self.texts = []

        def say(self, text):
            self.texts.append(text)

        def stopped(self):
            return any("in turns" in text for text in self.texts)

    with pytest.raises(StoppedError):
        bench.measure(alone(compiled(BODY)), Impatient())
    assert lock.find_holder(bench.device.uuid) is None


def test_one_measurement_at_a_time(bench, compiled):
    with lock.hold(bench.device.uuid, "a test"):
        done = []
        entry = compiled(BODY)
        thread = threading.Thread(target=lambda: done.append(bench.measure(alone(entry), Silent())))
        thread.start()
        thread.join(1.0)
        assert not done
    thread.join(60.0)
    assert done[0].performance.conditions.lock_wait_s > 0.9


@pytest.mark.parametrize("deed", ["open('/etc/hostname')", "__import__('socket').socket()", "__import__('os').fork()"])
def test_a_hostile_reference_reaches_nothing_on_the_gpu_either(tmp_path, compiled, deed):
    source = (
        "import torch\nbatch_size = 512\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
        f"def get_inputs():\n    if torch.cuda.is_initialized():\n        {deed}\n"
        "    return [torch.rand(batch_size, 16384)]\n"
    )
    problem = Problem("hostile", "", source, "hostile.py", (ROWS,))
    with Reference(problem, tmp_path) as reference, Timer(reference, detect()) as timer:
        with pytest.raises(ProblemError, match="PermissionError"):
            timer.measure(alone(compiled(BODY)), Silent())
        assert timer.judge.sandbox in ("landlock+seccomp", "seccomp")


def test_the_existing_kernel_is_timed_in_turns_and_a_wrong_or_harmful_one_is_left_out(bench, compiled):
    quick, slow = compiled(BODY), compiled(SLOW)
    performance = bench.measure(alone(quick, existing=slow), Silent()).performance
    assert [t.contender for t in performance.timings] == [CANDIDATE, EXISTING]
    assert performance.speedup(EXISTING).word is Word.FASTER
    for body in (TAIL, BEYOND):
        measured = bench.measure(alone(quick, existing=compiled(body)), Silent())
        assert measured.failure is None, measured.failure
        assert [u.contender for u in measured.performance.untimed] == [EXISTING]
        assert [t.contender for t in measured.performance.timings] == [CANDIDATE]
    both = bench.measure(Contest(ROWS, 7, quick, slow, slow), Silent()).performance
    assert [t.contender for t in both.timings] == [CANDIDATE, BEST, EXISTING, EAGER, COMPILED]


def test_points_are_raced_and_one_that_faults_is_lost_without_the_others(bench, compiled):
    entries = {"0": compiled(BODY), "1": compiled(SLOW), "2": compiled(BEYOND)}
    found = bench.race(Race(ROWS, 11, entries, 2), Silent())
    assert found.not_timed == ""
    assert set(found.samples_us) == {"0", "1"}
    assert set(found.lost) == {"2"}
    quick, slow = (median(found.samples_us[name]) for name in ("0", "1"))
    assert quick < slow
    alone_us = bench.measure(alone(compiled(BODY)), Silent()).performance.candidate.median_us
    assert quick == pytest.approx(alone_us, rel=0.05), "as in an ordinary measurement"
