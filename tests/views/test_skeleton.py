"""A skeleton fits its problem: it is a kernel file whose plan resolves, and it compiles; it computes nothing."""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Stage, StageStatus
from cutegen_core.views.skeleton import write_skeleton
from cutegen_core.views.who_proposes import ask_playbook
from tests.few_runs import few_runs
from tests.shared_tools import SharedTools

MIXED = Signature(
    (TensorSpec("x", "float32", (16, 32)), TensorSpec("weight", "bfloat16", (3,), TensorRole.PARAMETER),
     TensorSpec("rows", "int64", (17,)), TensorSpec("scale", "float8_e4m3fn", (4,))),
    (TensorSpec("out0", "bool", (4,), TensorRole.OUTPUT), TensorSpec("out1", "float16", (4, 4), TensorRole.OUTPUT)),
    {"eps": 1e-5, "groups": 3, "causal": True, "momentum_of_the_running_mean": 0.1},
)  # fmt: skip


def test_it_takes_every_tensor_and_number_in_the_plan_and_in_the_code() -> None:
    text = write_skeleton('23_Conv "1d" thing', MIXED)
    kernel = parse(text)
    (launch,) = kernel.launches
    assert [one.expression.text for one in launch.args] == [
        "x", "weight", "rows", "scale", "out0", "out1", *MIXED.scalars, "n",
    ]  # fmt: skip
    for declared in ("float const* x", "cute::bfloat16_t const* weight", "int64_t const* rows", "uint8_t* out0",
                     "float eps", "long groups", "bool causal"):  # fmt: skip
        assert declared in text
    assert "// rows: input int64 [17], row-major" in text
    (planned,) = kernel.plan(MIXED, choose_device("sm_90a"), {}).launches
    assert planned.grid == (1, 1, 1)
    assert max(map(len, text.splitlines())) <= 120


def test_a_skeleton_compiles_and_is_not_taken_for_a_kernel(shared: SharedTools) -> None:
    problem = few_runs("rmsnorm")
    reference = shared.reference(problem)
    text = write_skeleton(problem.name, reference.signature(problem.workloads[0]))
    evaluator = Evaluator(
        problem, reference, shared.executor, shared.compiler(), choose_device("sm_90a"), keep=lambda _: "kept"
    )
    trial = evaluator.evaluate(Candidate(text, Author.PERSON, None), seed=1)
    assert {r.stage: r.status for r in trial.stages}[Stage.COMPILE] is StageStatus.PASSED, trial.message
    assert not trial.passed
    assert not [d for d in trial.diagnostics if d.severity == "error"]


def test_the_playbook_says_what_it_knows_and_what_it_does_not() -> None:
    assert ask_playbook(library.load("relu")).kernels
    own = few_runs("relu")
    unknown = replace(own, source=own.source.replace("torch.relu(x)", "torch.mode(x, dim=0)[0]"))
    assert unknown.source != own.source
    found = ask_playbook(unknown)
    assert not found.kernels
    assert found.missing == "no rule for aten.mode (line 24)"
