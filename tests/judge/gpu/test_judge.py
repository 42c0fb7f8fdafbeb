"""The judge of a GPU whose memory runs out, or whose process dies: what a right kernel wrote is never called wrong.

Its sets are in host memory here (`judge_on_cpu`), and a kernel is a Python function on what it was handed.
"""

import mmap
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cutegen_core.evaluate.timing import contenders, racing
from cutegen_core.evaluate.timing import timer as timer_module
from cutegen_core.evaluate.timing.contest import Contest, Entry, Race
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.cuda.nvml import GpuState, Period
from cutegen_core.execute.cuda.program import Program
from cutegen_core.execute.cuda.runner_process import RunnerAnswer
from cutegen_core.judge.gpu import client as judge_device
from cutegen_core.judge.gpu.client import CompiledReference, DeviceJudge, Drawing, Sets, Unfit
from cutegen_core.machine.device import KNOWN
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import MachineError, ProblemError
from cutegen_core.records.performance import CANDIDATE, EXISTING
from cutegen_core.records.problem import (
    Problem,
    Signature,
    TensorRole,
    TensorSpec,
    Tolerance,
    Values,
    Workload,
    WorkloadRole,
)
from cutegen_core.records.trial import Mark, Status
from tests.judge.gpu.hungry import MOST_SETS, run_out_in

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(8, 8)]
"""
JUDGE = "tests.judge.gpu.judge_on_cpu"
OTHER = SOURCE.replace("8, 8", "4, 16")
BROKEN = SOURCE.replace("return [torch.randn(8, 8)]", "raise ValueError('not today')")
OWN_SIZE = Workload("own", WorkloadRole.BENCHMARK)
PROBLEM = Problem("relu", "", SOURCE, "relu.py", (OWN_SIZE,))


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_device, "PROGRAM", JUDGE)
        patch.setattr(judge_device, "Worker", partial(Worker, imports=(JUDGE,)))
        yield


@pytest.fixture(scope="module")
def owner(on_the_cpu):
    judge = DeviceJudge(PROBLEM, "GPU-none")
    yield judge
    judge.close()


@pytest.fixture
def judge(owner):
    run_out_in()
    yield owner
    run_out_in()


def prepare(judge, source=SOURCE, shape=(8, 8), seed=1):
    signature = Signature(
        (TensorSpec("x", "float32", shape, TensorRole.INPUT),),
        (TensorSpec("out", "float32", shape, TensorRole.OUTPUT),),
    )
    return judge.prepare(Drawing(source, Values.GIVEN, seed), signature, 3)


def array(shared):
    memory = mmap.mmap(shared.fd, shared.layout.mapped)
    return np.frombuffer(memory, np.float32, shared.layout.nbytes // 4, shared.layout.offset)


def relu(shared):
    arrays = {each.name: array(each) for each in shared}
    arrays["out"][:] = np.maximum(arrays["x"], 0.0)


def wrong_of_a_right_kernel(judge, sets):
    """Return how many elements of what it wrote into set 0 the judge calls wrong."""
    relu(sets.shared[0])
    (found,) = judge.compare(OWN_SIZE)
    return found.wrong


def test_new_values_come_into_the_same_sets_and_another_workload_into_others(judge):
    sets = prepare(judge)
    assert len(sets.timed) == 3
    assert wrong_of_a_right_kernel(judge, sets) == 0
    assert prepare(judge, seed=2) is sets
    (found,) = judge.compare(OWN_SIZE)
    assert found.poison == 64
    assert wrong_of_a_right_kernel(judge, sets) == 0
    assert prepare(judge, OTHER, (4, 16)) is not sets


@pytest.mark.parametrize("operation", ["check", pytest.param("guards", marks=pytest.mark.thorough)])
def test_memory_that_runs_out_on_the_way_is_the_machines_fault_and_the_next_trial_is_judged_right(judge, operation):
    relu(prepare(judge).shared[0])
    judge.compare(OWN_SIZE)
    run_out_in(operation)
    with pytest.raises(MachineError, match=r"ran out of memory: .+; close other programs on the GPU"):
        judge.check([]) if operation == "check" else judge.check_guards()
    run_out_in()
    assert wrong_of_a_right_kernel(judge, prepare(judge)) == 0


def test_a_workload_that_fails_leaves_no_stale_sets_of_the_one_before(judge):
    sets = prepare(judge)
    descriptors = [each.fd for shared in sets.shared for each in shared]
    with pytest.raises(ProblemError, match="not today"):
        prepare(judge, BROKEN)
    for fd in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert wrong_of_a_right_kernel(judge, prepare(judge)) == 0


def test_memory_that_runs_out_while_values_are_drawn_is_an_answer(judge):
    prepare(judge)
    run_out_in("prepare")
    assert isinstance(prepare(judge, seed=2), Unfit)
    run_out_in()
    assert wrong_of_a_right_kernel(judge, prepare(judge)) == 0


def test_where_memory_runs_out_in_the_comparison_it_can_be_asked_again(judge):
    relu(prepare(judge).shared[0])
    run_out_in("compare")
    assert "the reference and its float64 copy need more memory" in judge.compare(OWN_SIZE).reason
    run_out_in()
    (found,) = judge.compare(OWN_SIZE)
    assert found.wrong == 0


@pytest.mark.thorough
def test_a_judge_that_died_between_two_trials_hands_out_its_new_sets(judge):
    prepare(judge)
    os.kill(judge.pid, signal.SIGKILL)
    os.waitid(os.P_PID, judge.pid, os.WEXITED | os.WNOWAIT)
    assert wrong_of_a_right_kernel(judge, prepare(judge)) == 0


@pytest.mark.thorough
def test_memory_that_runs_out_for_the_compiled_reference_is_the_machines_fault(judge):
    sets = prepare(judge)
    signature = Signature((TensorSpec("x", "float32", (8, 8), TensorRole.INPUT),), ())
    only_x = Sets(tuple(shared[:1] for shared in sets.shared), 0)
    compiled = CompiledReference(PROBLEM, "GPU-none")
    try:
        run_out_in("adopt")
        with pytest.raises(MachineError, match=r"torch\.compile ran out of memory"):
            compiled.adopt(Drawing(SOURCE, Values.GIVEN, 1), signature, only_x)
        run_out_in()
        compiled.adopt(Drawing(SOURCE, Values.GIVEN, 1), signature, only_x)
    finally:
        compiled.close()


# ---- the timer on such a judge


class HostRunner:
    """Plays `RunnerProcess`. The kernel "huge" is right and holds all memory while it is loaded, so that a comparison
    finds none; "huge and wrong" computes nothing, as "wrong" does, which takes twice the time."""

    def __init__(self, uuid, *, measures):
        self.kernel, self.sets, self.random = b"", (), random.Random(1)

    def wait_until_ready(self): ...

    def load(self, cubin, program, sets):
        self.kernel, self.sets = cubin, sets
        if cubin.startswith(b"huge"):
            run_out_in("compare")
        return RunnerAnswer(Status.PASSED)

    def run(self, index, *, calls, timeout_s):
        if not self.kernel.endswith(b"wrong"):
            relu(self.sets[index])
        return RunnerAnswer(Status.PASSED)

    def measure(self, order, *, warm, warm_runs, timeout_s, not_before):
        for index in order:
            array(next(each for each in self.sets[index] if each.name == "out"))[:] = -1.0  # the runner's poison
            self.run(index, calls=1, timeout_s=timeout_s)
        us = [100.0 * self.random.gauss(1.0, 0.002) for _ in order]
        return RunnerAnswer(Status.PASSED, result={"us": us, "method": "graph replay"})

    def close(self):
        if self.kernel.startswith(b"huge"):
            run_out_in()
        self.kernel = b""


class Board:
    """Plays `nvml.NvmlGpu` and `nvml.Monitor`: a cool one."""

    name, driver = "a GPU", ""

    def __init__(self, of): ...

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def close(self): ...

    def count_other_processes(self):
        return 0

    def since(self, begun):
        return Period((GpuState(begun, 1980, 3201, 40, 300.0, 0),))


class Silent:
    def say(self, text): ...

    def stopped(self):
        return False


@pytest.fixture
def timer(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(contenders, "RunnerProcess", HostRunner)
    monkeypatch.setattr(timer_module.nvml, "NvmlGpu", Board)
    monkeypatch.setattr(timer_module, "Monitor", Board)
    device = replace(next(iter(KNOWN.values())), uuid="GPU-none")
    run_out_in()
    with Timer(shared.reference(PROBLEM, tmp_path), device) as made:
        yield made
    run_out_in()


def measure(timer, kernel, existing=b""):
    beside = Entry(existing, Program(())) if existing else None
    contest = Contest(OWN_SIZE, 1, Entry(kernel, Program(())), existing=beside, baselines=False, remeasure=False)
    return timer.measure(contest, Silent())


def test_a_measurement_waits_for_the_warm_up_that_goes_on(timer):
    with ThreadPoolExecutor(1) as threads:
        warm = threads.submit(timer.warm_up)
        measured = measure(timer, b"right")
        warm.result()
    assert [c.wrong for c in measured.comparisons] == [0]


def test_a_timer_closed_before_it_was_warm_starts_nothing(timer):
    timer.close()
    timer.warm_up()
    assert timer.judge.pid == 0


def test_where_the_reference_never_fits_the_kernel_is_neither_judged_at_its_size_nor_timed(timer):
    run_out_in("compare")
    measured = measure(timer, b"right")
    assert (measured.performance, measured.failure, measured.comparisons) == (None, None, ())
    assert measured.marks == (Mark.NOT_TIMED,)
    assert measured.not_timed.startswith("not judged at its own size: the reference and its float64 copy need more")
    run_out_in()
    measured = measure(timer, b"right")
    assert [c.wrong for c in measured.comparisons] == [0]
    assert measured.performance.candidate.contender == CANDIDATE


def test_what_a_kernel_takes_for_itself_does_not_spare_it_the_comparison(timer):
    failure = measure(timer, b"huge and wrong").failure
    assert failure.status is Status.INCORRECT_NUMERICAL
    measured = measure(timer, b"huge")
    assert (measured.failure, measured.marks) == (None, ())
    assert [c.wrong for c in measured.comparisons] == [0]
    assert measured.performance.conditions.sets == MOST_SETS - 1


def test_the_existing_kernel_is_timed_in_turns_and_a_wrong_one_is_left_out(timer):
    performance = measure(timer, b"right", existing=b"another").performance
    assert [t.contender for t in performance.timings] == [CANDIDATE, EXISTING]
    assert performance.speedup(EXISTING) is not None
    measured = measure(timer, b"right", existing=b"wrong")
    assert (measured.failure, [c.wrong for c in measured.comparisons]) == (None, [0])
    assert [t.contender for t in measured.performance.timings] == [CANDIDATE]
    (untimed,) = measured.performance.untimed
    assert (untimed.contender, "a timed run was wrong" in untimed.reason) == (EXISTING, True)


def test_points_are_raced_side_by_side_and_a_wrong_one_is_for_the_stages_to_find(timer, monkeypatch):
    monkeypatch.setattr(racing, "Monitor", Board)
    entries = {name: Entry(kernel, Program(())) for name, kernel in (("0", b"right"), ("1", b"wrong"))}
    found = timer.race(Race(OWN_SIZE, 3, entries, 2), Silent())
    assert (found.lost, found.not_timed) == ({}, "")
    assert {name: len(samples) > 0 for name, samples in found.samples_us.items()} == {"0": True, "1": True}
    run_out_in("prepare")
    assert timer.race(Race(OWN_SIZE, 4, entries, 2), Silent()).not_timed.startswith("no room for its buffers")


TWO_OUTPUTS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), x + 1

def get_inputs():
    return [torch.randn(8, 8)]
"""


def test_each_output_is_held_against_its_own_tolerance_and_the_workloads_comes_first(on_the_cpu):
    tight, loose = Tolerance(1e-6, 0.0), Tolerance(1.0, 0.0, 1e9)
    own = replace(OWN_SIZE, tolerance={"out1": tight})
    problem = Problem("two", "", TWO_OUTPUTS, "two.py", (OWN_SIZE, own), {"float32": tight, "out1": loose})
    x, *outs = (TensorSpec(name, "float32", (8, 8), TensorRole.OUTPUT) for name in ("x", "out0", "out1"))
    judge = DeviceJudge(problem, "GPU-none")
    try:
        signature = Signature((replace(x, role=TensorRole.INPUT),), tuple(outs))
        for workload, wrong in ((OWN_SIZE, [64, 0]), (own, [64, 64])):
            shared = judge.prepare(Drawing(TWO_OUTPUTS, Values.GIVEN, 1), signature, 3).shared[0]
            arrays = {each.name: array(each) for each in shared}
            arrays["out0"][:] = np.maximum(arrays["x"], 0.0) + 0.01
            arrays["out1"][:] = arrays["x"] + 1.01
            assert [c.wrong for c in judge.compare(workload)] == wrong
    finally:
        judge.close()


EQUAL_ELEMENTS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x.round(), 3, dim=1).indices

def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_any_of_equal_elements_may_be_taken(on_the_cpu):
    problem = Problem("ties", "", EQUAL_ELEMENTS, "ties.py", (OWN_SIZE,))
    x = TensorSpec("x", "float32", (8, 64), TensorRole.INPUT)
    judge = DeviceJudge(problem, "GPU-none")
    try:
        signature = Signature((x,), (TensorSpec("out", "int64", (8, 3), TensorRole.OUTPUT),))
        shared = judge.prepare(Drawing(EQUAL_ELEMENTS, Values.GIVEN, 1), signature, 3).shared[0]
        arrays = {each.name: array(each) for each in shared}
        rounded, out = np.round(arrays["x"]).reshape(8, 64), arrays["out"].view(np.int64).reshape(8, 3)
        for stable in (rounded, rounded[:, ::-1]):
            first = np.argsort(-stable, axis=1, kind="stable")[:, :3]
            out[:] = first if stable is rounded else 63 - first
            assert [c.wrong for c in judge.compare(OWN_SIZE)] == [0]
        out[0, 0] = np.argmin(rounded[0])
        assert [c.wrong for c in judge.compare(OWN_SIZE)] == [1]
    finally:
        judge.close()
