"""Tests begin while NVIDIA's compiler is still at work, and count only if it accepts the kernel."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.execute.compiler.compilation import CompileResult
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import StoppedError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Diagnostic, Stage, StageStatus, Status
from tests.places import DATA

RELU = (DATA / "relu.cu").read_text()
WRONG = RELU.replace("isnan(in(i)) ? in(i) : 0.0f", "isnan(in(i)) ? in(i) : 1.0f")
HANGS = RELU.replace("isnan(in(i)) ? in(i)", "isnan(in(i)) ? endless(in(i))").replace(
    "template",
    "__device__ float endless(float x) {\n  while (x == x) x = x * 0.5f + 1.0f;\n  return x;\n}\n\ntemplate",
    1,
)
MODULE = """
import torch

size = 9

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(size)]
"""
PROBLEM = Problem("begun", "begun", MODULE, "here", (Workload("small", WorkloadRole.EMULATOR, {"size": 100}),))
PATIENCE_S = 60
REFUSED = CompileResult(Status.COMPILE_ERROR, (Diagnostic(1, "error", "refused", "nvrtc"),), message="refused")


@dataclass
class Telling:
    """An executor that tells when a kernel runs."""

    executor: object
    runs: threading.Event = field(default_factory=threading.Event)

    def __getattr__(self, name):
        return getattr(self.executor, name)

    @contextmanager
    def open(self, built):
        with self.executor.open(built) as execute:
            yield lambda execution: self.runs.set() or execute(execution)


@dataclass
class Late:
    """A compiler that ends once the kernel runs, or what `runs` tells; a `result` is what it then answers."""

    compiler: object
    runs: threading.Event
    result: CompileResult | None = None

    def compile(self, *asked):
        made = self.compiler.compile(*asked)
        assert self.runs.wait(PATIENCE_S), "no test began before the compiler had ended"
        return self.result or made


@pytest.fixture
def evaluator(shared):
    executor = Telling(shared.executor)
    compiler = Late(shared.compiler(), executor.runs)
    reference = shared.reference(PROBLEM)
    return Evaluator(PROBLEM, reference, executor, compiler, choose_device("sm_90a"), keep=lambda _: "kept")


def stages(trial):
    return [(result.stage, result.status) for result in trial.stages[:3]]


class Listening(SilentWatch):
    def __init__(self):
        self.lines = []
        self.told = threading.Event()

    def say(self, text):
        self.lines.append(text)
        if "workload" in text:
            self.told.set()


def test_the_tests_say_how_far_they_are_and_how_long_they_took(evaluator):
    """Before, a stage of many runs was said to have taken no time, and nothing was said while they ran."""
    watch = Listening()
    evaluator.compiler.runs = watch.told
    trial = evaluator.evaluate(Candidate(RELU, Author.PERSON), seed=1, watch=watch)
    assert "testing meanwhile: workload small" in watch.lines
    runs = sum(verdict.seconds for verdict in trial.correctness.verdicts)
    assert next(result.seconds for result in trial.stages if result.stage is Stage.TEST) > runs / 4


@pytest.mark.parametrize(
    ("source", "status"), [(RELU, Status.PASSED), (WRONG, Status.INCORRECT_NUMERICAL)], ids=["right", "wrong"]
)
def test_a_verdict_has_what_both_found(evaluator, source, status):
    trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=1)
    assert trial.status is status, trial.message
    tested = StageStatus.PASSED if trial.passed else StageStatus.FAILED
    assert stages(trial)[1:] == [(Stage.COMPILE, StageStatus.PASSED), (Stage.TEST, tested)]
    assert trial.resources
    assert trial.resources.kernels
    assert trial.correctness
    assert trial.correctness.verdicts


@pytest.mark.parametrize("source", [RELU, WRONG], ids=["right", "wrong"])
def test_what_the_compiler_refuses_was_not_tested(evaluator, source):
    evaluator.compiler.result = REFUSED
    trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=1)
    assert (trial.status, trial.message) == (Status.COMPILE_ERROR, "refused")
    assert stages(trial) == [(Stage.PATCH, StageStatus.PASSED), (Stage.COMPILE, StageStatus.FAILED)]
    assert trial.correctness is None


def test_a_run_that_hangs_is_ended_with_its_tests(evaluator):
    """Its own limit is longer than a test may take."""
    evaluator.compiler.result = REFUSED
    trial = replace(evaluator, run_timeout_s=10_000.0).evaluate(Candidate(HANGS, Author.PERSON), seed=1)
    assert (trial.status, trial.message) == (Status.COMPILE_ERROR, "refused")


def test_a_person_stops_tests_that_were_begun(evaluator):
    class Stopping(SilentWatch):
        def stopped(self):
            return evaluator.executor.runs.is_set()

    with pytest.raises(StoppedError):
        evaluator.evaluate(Candidate(RELU, Author.PERSON), seed=1, watch=Stopping())


def test_lines_of_the_tests_are_shown_under_their_own_stage(evaluator):
    class Noting(SilentWatch):
        told, stage = (), None

        def started(self, stage):
            self.stage = stage

        def say(self, text):
            self.told += ((self.stage, text),)

    watch = Noting()
    evaluator.evaluate(Candidate(RELU, Author.PERSON), seed=1, watch=watch)
    assert all(stage is Stage.TEST for stage, text in watch.told if text.startswith("workload"))


class OnGpu(Telling):
    """An executor that waits for what NVIDIA's compiler made, as a GPU does."""

    needs_code = True

    def build(self, kernel, params, wait_for_code, **how):
        wait_for_code()
        return self.executor.build(kernel, params, wait_for_code, **how)


class Disassembling(Late):
    """A compiler that has made the code, and ends when a test has begun, or after a second."""

    began = False

    def compile(self, kernel, params, probe, on_code):
        assert not self.runs.is_set(), "a test began before anything was compiled"
        made = self.compiler.compile(kernel, params, probe)
        on_code(replace(made, sass=""))
        self.began = self.runs.wait(PATIENCE_S if self.result is None else 1.0)
        return self.result or made


def on_gpu(shared, result=None):
    executor = OnGpu(shared.executor)
    compiler, reference = Disassembling(shared.compiler(), executor.runs, result), shared.reference(PROBLEM)
    return Evaluator(PROBLEM, reference, executor, compiler, choose_device("sm_90a"), keep=lambda _: "kept")


def test_tests_begin_on_a_gpu_while_the_code_is_disassembled(shared):
    evaluator = on_gpu(shared)
    assert evaluator.evaluate(Candidate(RELU, Author.PERSON), seed=1).passed
    assert evaluator.compiler.began


CLOCK = RELU.replace("  auto in =", "  if (clock64() == 7) return;\n  auto in =")
ARGUMENTS = RELU.replace('args   = ["x", "out", "n"]', 'args   = ["x", "out"]')
HEAP = RELU.replace("  auto in =", "  if (n < 0) free(malloc(n));\n  auto in =")


@pytest.mark.parametrize(
    "source",
    [pytest.param(CLOCK, marks=pytest.mark.thorough), ARGUMENTS, pytest.param(HEAP, marks=pytest.mark.thorough)],
    ids=["clock", "arguments", "heap"],
)
def test_nothing_runs_on_a_gpu_that_a_check_may_refuse(shared, source):
    assert source != RELU
    refused = CompileResult(Status.COMPILE_ERROR, (Diagnostic(1, "error", "refused", "nvrtc"),), message="refused")
    evaluator = on_gpu(shared, refused)
    assert not evaluator.evaluate(Candidate(source, Author.PERSON), seed=1).passed
    assert not evaluator.executor.runs.is_set()
