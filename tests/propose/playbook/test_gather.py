"""Kernels over indices and row pointers, recognised as whole graphs: which graphs are, and right kernels."""

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
from cutegen_core.propose.playbook import Target, Variant, propose
from cutegen_core.propose.playbook.gather import levels_of
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import not_asked
from tests.propose.playbook.right import assert_level_right
from tests.propose.playbook.right import problem as case_of
from tests.shared_tools import SharedTools

DEVICE = choose_device("sm_90a")
ALL = ("naive", "warp", "vectorised", "packed", "persistent")
SEGMENTS = (*ALL, "balanced")
MENUS = {
    "gather_rows": ALL, "gather_mean": SEGMENTS, "gather_mean_fp16": SEGMENTS, "gather_mean_bf16": SEGMENTS,
    "gather_mean_backward": SEGMENTS, "gather_mean_backward_deterministic": SEGMENTS,
    "gather_mean_backward_deterministic_bf16": SEGMENTS,
    "sage_layer": ("naive", "packed", "fused", "multistage", "3xTF32"), "gat_softmax_aggregate": ALL,
}  # fmt: skip
BY_DEFAULT = {
    "gather_rows": "persistent", "gather_mean": "balanced", "gather_mean_backward": "balanced",
    "sage_layer": "fused", "gat_softmax_aggregate": "persistent",
}  # fmt: skip
"""Levels that are tested by default; those of sage_layer behind it take eight seconds and half a minute to compile."""
AWKWARD = {
    "gather_rows": ("ragged", "narrow", "wide"),
    "gather_mean": ("ragged", "few edges", "empty rows", "hub", "wide"),
}
ALIKE = [
    ("gather_rows", "index_select(0, idx)", "index_select(0, idx) * 2"),
    ("gather_rows", "index_select(0, idx)", "index_select(0, idx.flip(0))"),
    ("gather_mean", 'mode="mean"', 'mode="max"'),
    ("gather_mean", "include_last_offset=True)", "include_last_offset=True, padding_idx=0)"),
    ("gather_mean", "indptr, mode", "indptr[:-1], mode"),
    ("gather_mean", "F.embedding_bag(idx, table,", "F.embedding_bag(idx, table * 2,"),
    ("gather_mean_backward", "clamp(min=1)", "clamp(min=2)"),
    ("gather_mean_backward", "indptr[1:] - indptr[:-1]", "indptr[:-1] - indptr[1:]"),
    ("gather_mean_backward", "indptr[1:] - indptr[:-1]", "indptr[1:] - indptr[1:]"),
    ("gather_mean_backward", "grad.new_zeros(", "grad.new_ones("),
    ("gather_mean_backward", "shares.index_select(0, rows))", "shares.index_select(0, rows), alpha=2)"),
    ("gather_mean_backward_deterministic", 'mode="sum"', 'mode="mean"'),
    ("sage_layer", "torch.relu(", "torch.sigmoid("),
    ("sage_layer", 'mode="mean"', 'mode="sum"'),
    ("sage_layer", "self.bias, own, self.root", "self.bias, mean, self.root"),
    ("gat_softmax_aggregate", '"amax"', '"amin"'),
    ("gat_softmax_aggregate", "torch.exp(score - largest", "torch.exp(largest"),
    ("gat_softmax_aggregate", "weight / total", "weight * total"),
    ("gat_softmax_aggregate", "h.index_select(0, idx)", "h.index_select(0, rows)"),
]


def variants_of(problem: Problem, shared: SharedTools, folder: Path) -> tuple[Variant, ...]:
    reference, own = shared.reference(problem, folder), problem.workloads[0]
    return propose(reference.graph(own), reference.signature(own), problem.name, Target(allow=problem.allow))


@pytest.mark.by_default(4)
@pytest.mark.parametrize("name", MENUS)
def test_the_menu_and_its_kernels_plan_for_every_workload(name: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = load(name)
    variants, reference = variants_of(problem, shared, tmp_path), shared.reference(problem, tmp_path)
    assert tuple(v.name for v in variants) == MENUS[name]
    assert len({content_key(v.source) for v in variants}) == len(variants)
    for variant in variants:
        kernel = kernel_file.parse(variant.source)
        counts = {len(kernel.plan(reference.signature(w), DEVICE, workload=w.name).launches) for w in problem.workloads}
        assert len(counts) == 1, "exactly one of the launches that choose by shape"
        assert kernel.numerics.deterministic is (name != "gather_mean_backward")


@pytest.mark.by_default(4)
@pytest.mark.parametrize(("name", "before", "after"), ALIKE)
def test_what_only_looks_alike_is_not_taken_for_it(
    name: str, before: str, after: str, shared: SharedTools, tmp_path: Path
) -> None:
    problem = load(name)
    assert before in problem.source
    other = replace(problem, name=f"{name}_changed", source=problem.source.replace(before, after), tolerance={})
    reference, own = shared.reference(other, tmp_path), problem.workloads[1]
    graph = reference.graph(own)
    assert graph.nodes
    assert levels_of(graph, reference.signature(own)) == ()


FROM_THE_END = case_of(
    "x[i]", {"R": 64, "C": 64}, {"R": 37, "C": 20}, x="torch.randn(R, C)", i="torch.randint(-R, R, (50,))"
)  # fmt: skip


@pytest.mark.parametrize("level", ["naive", "persistent"])
def test_indices_below_0_count_from_the_end(level: str, shared: SharedTools, tmp_path: Path) -> None:
    assert_level_right(FROM_THE_END, level, {}, shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("name", "level"), BY_DEFAULT.items())
def test_a_variant_is_right_on_awkward_workloads(name: str, level: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = load(name)
    reference = shared.reference(problem, tmp_path)
    (variant,) = (each for each in variants_of(problem, shared, tmp_path) if each.name == level)
    kernel = kernel_file.parse(variant.source)
    built = shared.executor.build(kernel, {}, not_asked, checked=True)
    assert built.status is Status.PASSED, built.log
    for workload in problem.with_role(WorkloadRole.EMULATOR):
        if workload.name not in AWKWARD.get(name, ("ragged", "empty rows", "hub", "few edges")):
            continue
        signature, inputs = reference.signature(workload), reference.write_inputs(workload, 1)
        outputs = {spec: tmp_path / f"{spec.name}.out" for spec in signature.outputs}
        for path in outputs.values():
            path.write_bytes(b"")
        plan = kernel.plan(signature, DEVICE, workload=workload.name)
        with shared.executor.open(built) as execute:
            ran = execute(Execution(built, plan, inputs, outputs, order="random", seed=5))
        assert ran.status is Status.PASSED, ran.message
        assert [c.wrong for c in reference.compare(workload, 1, outputs)] == [0], workload.name


@pytest.mark.thorough
@pytest.mark.parametrize("name", MENUS)
def test_every_variant_passes_a_whole_trial(name: str, shared: SharedTools, tmp_path: Path) -> None:
    problem = load(name)
    evaluator = Evaluator(
        problem, shared.reference(problem, tmp_path), shared.executor, shared.compiler(), DEVICE, content_key, None,
        10.0,
    )  # fmt: skip
    for variant in variants_of(problem, shared, tmp_path):
        trial = evaluator.evaluate(Candidate(variant.source, Author.PLAYBOOK), seed=3, watch=SilentWatch())
        assert trial.status is Status.PASSED, (variant.name, trial.message)
