"""Serving kernels that are recognised as whole graphs: which graphs are, which only look alike, and right kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.execute.port import Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import load
from cutegen_core.propose.playbook import Variant, propose, serving
from cutegen_core.propose.playbook.serving.writing import write
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import Problem, Signature, WorkloadRole
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import not_asked
from tests.shared_tools import SharedTools

DEVICE = choose_device("sm_90a")
MENUS = {
    "rotary_embedding": ("naive", "vectorised", "hoisted"),
    "per_token_quant_fp8": ("naive", "vectorised", "registers"),
    "topk_softmax": ("naive", "warp", "groups"),
}
AWKWARD = {
    "rotary_embedding": ("odd pairs", "pairs of 20", "large_scale"),
    "per_token_quant_fp8": ("tile+1", "vectors", "not a number"),
    "topk_softmax": ("wide", "many ties", "masked experts"),
}
OTHER_TYPES = [
    ("rotary_embedding", "torch.bfloat16", "torch.float16"),
    ("rotary_embedding", "torch.bfloat16", "torch.float32"),
    ("per_token_quant_fp8", "torch.bfloat16", "torch.float16"),
    ("topk_softmax", "torch.int32", "torch.int64"),
]
ALIKE = [
    ("rotary_embedding", "second * cos + first * sin", "second * cos - first * sin"),
    ("rotary_embedding", "first * cos - second * sin,", "first * cos - first * sin,"),
    ("rotary_embedding", "dim=-1).to(x.dtype)", "dim=-1).abs().to(x.dtype)"),
    ("rotary_embedding", "rotate(key, cos, sin)", "rotate(key, sin, cos)"),
    ("per_token_quant_fp8", ".clamp(min=SMALLEST_SCALE)", ""),
    ("per_token_quant_fp8", "/ LARGEST)", "/ 240.0)"),
    ("per_token_quant_fp8", "amax(dim=-1, keepdim=True)", "mean(dim=-1, keepdim=True)"),
    ("per_token_quant_fp8", "wide.abs().amax", "wide.amax"),
    ("per_token_quant_fp8", "(wide / scale)", "(wide * scale)"),
    ("per_token_quant_fp8", "(wide / scale)", "torch.div(wide, scale, rounding_mode='trunc')"),
    ("per_token_quant_fp8", "(wide / scale)", "(wide.to(torch.int32).float() / scale)"),
    ("per_token_quant_fp8", "(wide / scale)", "(wide.half().float() / scale)"),
    ("topk_softmax", "descending=True", "descending=False"),
    ("topk_softmax", "stable=True", "stable=False"),
    ("topk_softmax", "narrow(-1, 0, self.k)", "narrow(-1, 1, self.k)"),
    ("topk_softmax", "weights / weights.sum(dim=-1, keepdim=True)", "weights / weights.amax(dim=-1, keepdim=True)"),
]


def changed(name: str, before: str, after: str) -> Problem:
    problem = load(name)
    assert before in problem.source
    return replace(problem, name=f"{name}_changed", source=problem.source.replace(before, after), tolerance={})


def variants_of(problem: Problem, shared: SharedTools, folder: Path) -> tuple[tuple[Variant, ...], Signature]:
    reference = shared.reference(problem, folder)
    own = next(w for w in problem.workloads if w.name == "benchmark")
    signature = reference.signature(own)
    return tuple(write(level, "kernel") for level in serving.levels_of(reference.graph(own), signature)), signature


@pytest.mark.parametrize("name", MENUS)
def test_the_menu_and_its_kernels_plan_for_every_workload(name: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = load(name)
    reference = shared.reference(problem, tmp_path)
    own = next(w for w in problem.workloads if w.name == "benchmark")
    variants = propose(reference.graph(own), reference.signature(own), name)
    assert tuple(v.name for v in variants) == MENUS[name]
    assert len({content_key(v.source) for v in variants}) == len(variants)
    for variant in variants:
        kernel = kernel_file.parse(variant.source)
        launches = {
            kernel.plan(reference.signature(w), DEVICE, workload=w.name).launches[0].kernel for w in problem.workloads
        }
        assert variant.name == "naive" or len(launches) > 1, "one file chooses by shape"
        for workload in problem.workloads:
            assert len(kernel.plan(reference.signature(workload), DEVICE, workload=workload.name).launches) == 1


@pytest.mark.parametrize(("name", "before", "after"), ALIKE)
def test_what_only_looks_alike_is_not_taken_for_it(
    name: str, before: str, after: str, shared: SharedTools, tmp_path: Path
) -> None:
    assert variants_of(changed(name, before, after), shared, tmp_path)[0] == ()


def assert_right(
    problem: Problem, variant: Variant, workloads: tuple[str, ...], shared: SharedTools, folder: Path
) -> None:
    """Run instrumented on these workloads, and compare."""
    reference, kernel = shared.reference(problem, folder), kernel_file.parse(variant.source)
    built = shared.executor.build(kernel, {}, not_asked, checked=True)
    assert built.status is Status.PASSED, f"{variant.name}: {built.log}"
    for name in workloads:
        workload = next(w for w in problem.workloads if w.name == name)
        signature, inputs = reference.signature(workload), reference.write_inputs(workload, 1)
        outputs = {spec: folder / f"{spec.name}.out" for spec in signature.outputs}
        for path in outputs.values():
            path.write_bytes(b"")
        plan = kernel.plan(signature, DEVICE, workload=name)
        with shared.executor.open(built) as execute:
            ran = execute(Execution(built, plan, inputs, outputs, order="random", seed=5))
        assert ran.status is Status.PASSED, f"{variant.name}: {ran.message}"
        assert [c.wrong for c in reference.compare(workload, 1, outputs)] == [0, 0], (variant.name, name)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", MENUS)
def test_the_last_variant_is_right_on_awkward_workloads(name: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = load(name)
    variants, _ = variants_of(problem, shared, tmp_path)
    assert_right(problem, variants[-1], AWKWARD[name], shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "before", "after"), OTHER_TYPES)
def test_other_types_of_the_same_computation(
    name: str, before: str, after: str, shared: SharedTools, tmp_path: Path
) -> None:
    problem = changed(name, before, after)
    for variant in variants_of(problem, shared, tmp_path)[0][1:]:
        assert_right(problem, variant, AWKWARD[name], shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MENUS)
def test_the_existing_kernel_and_every_variant_pass_a_whole_trial(
    name: str, shared: SharedTools, tmp_path: Path
) -> None:
    problem = load(name)
    reference = shared.reference(problem, tmp_path)
    evaluator = Evaluator(
        problem, reference, shared.executor, shared.compiler(), DEVICE, content_key, None, 10.0
    )  # fmt: skip
    texts = [problem.existing, *(v.source for v in variants_of(problem, shared, tmp_path)[0])]
    assert len(texts) == 4
    for text in texts:
        trial = evaluator.evaluate(Candidate(text, Author.PLAYBOOK), seed=3, watch=SilentWatch())
        assert trial.status is Status.PASSED, trial.message


def test_benchmark_workloads_are_several() -> None:
    for name in MENUS:
        assert len(load(name).with_role(WorkloadRole.BENCHMARK)) == 5
