"""A parameter with a default of its own on the emulator: that one is run, the GPU's is compiled, checked and shown."""

from __future__ import annotations

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.planning import PlannedKernel, plan_candidate
from cutegen_core.evaluate.tuning.points import with_params
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.plan_words import say_plan, say_plan_change
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import ExecutorKind, Status
from tests.places import DATA

RELU = (DATA / "relu.cu").read_text()
LISTED = "BLOCK = { default = 256, values = [128, 256, 512] }"
APART = "BLOCK = { default = 256, values = [128, 256, 512], emulator = 128 }"
OWN = RELU.replace(LISTED, APART)
PROBLEM = Problem(
    "relu 1d", "relu", "import torch\n\nsize = 9\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    "        return torch.relu(x)\n\ndef get_inputs():\n    return [torch.randn(size)]\n",
    "here",
    (Workload("small", WorkloadRole.EMULATOR, {"size": 1000}), Workload("own", WorkloadRole.BENCHMARK, {"size": 5000})),
)  # fmt: skip


@pytest.fixture(scope="module")
def evaluator(shared):
    reference = shared.reference(PROBLEM)
    device = choose_device("sm_90a")
    return Evaluator(PROBLEM, reference, shared.executor, shared.compiler(), device, keep=lambda _: "kept")


def tried(evaluator, source):
    return evaluator.evaluate(Candidate(source, Author.PERSON, None), seed=1)


def test_the_emulator_runs_its_own_default_and_the_gpus_is_compiled_and_shown(evaluator):
    wrong_on_a_gpu = OWN.replace("? in(i) : 0.0f", "? in(i) : (BLOCK == 256 ? 1.0f : 0.0f)")
    found = tried(evaluator, wrong_on_a_gpu)
    assert found.passed, found.message
    assert {(o.block, o.grid) for o in found.resources.occupancy if o.workload == "own"} == {((256, 1, 1), (20, 1, 1))}
    said = "BLOCK = 128 runs here, the emulator's default; a GPU runs 256, which was compiled only"
    assert [d.message for d in found.diagnostics if d.tool == "plan"] == [said]


@pytest.mark.thorough
def test_what_a_gpu_will_take_is_estimated_with_its_own_default(evaluator):
    assert tried(evaluator, OWN).estimate == tried(evaluator, OWN.replace(", emulator = 128", "")).estimate


def test_what_the_emulator_runs_is_judged(evaluator):
    wrong_here = OWN.replace("? in(i) : 0.0f", "? in(i) : (BLOCK == 128 ? 1.0f : 0.0f)")
    assert tried(evaluator, wrong_here).status is Status.INCORRECT_NUMERICAL


@pytest.mark.parametrize(
    ("block", "where"), [pytest.param(256, "the GPU's", marks=pytest.mark.thorough), (128, "the emulator's")]
)
def test_both_defaults_must_compile(evaluator, block, where):
    source = OWN.replace("  auto in =", f'  static_assert(BLOCK != {block}, "{where}");\n  auto in =', 1)
    found = tried(evaluator, source)
    assert found.status is Status.COMPILE_ERROR
    assert any(where in d.message for d in found.diagnostics)


def test_a_gpu_plans_with_the_usual_default(evaluator):
    device, reference = choose_device("sm_90a"), evaluator.reference
    here, there = (
        plan_candidate(OWN, PROBLEM, reference, device, kind) for kind in (ExecutorKind.CPU, ExecutorKind.GPU)
    )
    assert isinstance(here, PlannedKernel)
    assert isinstance(there, PlannedKernel)
    assert (here.params, here.target.params, there.params, there.on_gpu) == (
        {"BLOCK": 128},
        {"BLOCK": 256},
        {"BLOCK": 256},
        None,
    )
    assert here.plans["own"].launches[0].grid[0] == 40
    plain = plan_candidate(RELU, PROBLEM, reference, device, ExecutorKind.CPU)
    assert isinstance(plain, PlannedKernel)
    assert plain.on_gpu is None


def test_a_sweep_chooses_the_default_and_leaves_the_emulators(evaluator):
    chosen = with_params(parse(OWN), {"BLOCK": 512})
    assert "BLOCK = { default = 512, values = [128, 256, 512], emulator = 128 }" in chosen
    assert parse(chosen).for_emulator().defaults() == {"BLOCK": 128}
    planned = evaluator.plan(chosen)
    point = evaluator.compile_point(planned)
    assert {row.block for row in point.resources.occupancy} == {(512, 1, 1)}
    alone = RELU.replace(LISTED, "BLOCK = { default = 256, emulator = 32 }")
    assert "BLOCK = { default = 64, emulator = 32 }" in parse(alone).with_param("BLOCK", 64)


def test_a_plan_in_words_says_both():
    assert "BLOCK 256 (128 on the emulator)" in say_plan(OWN)
    assert "128 on the emulator" in say_plan_change(RELU, RELU.replace(LISTED, APART))


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{ default = 256, values = [128, 256], emulator = 64 }", "emulator = 64 is not among its values"),
        ("{ default = 256, emulator = 0.5 }", "emulator = 0.5 is of another type than the default"),
        ('{ default = 256, emulator = "64" }', "must be a finite 64-bit number"),
        ("{ default = 256, emulater = 64 }", "unknown key 'emulater'.*emulator"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(written, why):
    with pytest.raises(KernelFileError, match=f"line 8: .*{why}"):
        parse(RELU.replace(LISTED, f"BLOCK = {written}"))


def test_where_holds_for_the_emulators_default_too(evaluator):
    found = tried(evaluator, OWN.replace(APART, f'{APART}\nwhere = "BLOCK >= 256"'))
    assert found.status is Status.REJECTED
    assert "BLOCK = 128" in found.message
