"""Any kernel as an operator: scratch, numbers, shapes that follow from workloads, names in cubins, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutegen_core.problems.library import load
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Signature, TensorSpec
from tests.later import Later
from tests.operators.plugs import SCRATCH, SUM, source_of
from tests.places import DATA

torch = Later("torch")
functional = Later("torch.nn.functional")
operators = Later("cutegen_core.operators")
launching = Later("cutegen_core.operators.launching")
shapes = Later("cutegen_core.operators.shapes")


def made_of(problem, text, shared):
    return operators.compiled(
        problem, text, "sm_90a", compiler=shared.compiler("sm_90a"), reference=shared.reference(problem)
    )


@pytest.fixture(scope="module")
def summed(shared):
    return made_of(SUM, SCRATCH.replace("CLUSTER", ""), shared)


def test_scratch_shared_memory_cooperation_and_numbers(summed):
    plugged = operators.plug(summed)
    for n in (1, 128, 1234):
        x = torch.randn(n)
        for scale in (0.5, -2.0):
            torch.testing.assert_close(plugged(x, scale=scale), (x * scale).sum().reshape(1))
    torch.testing.assert_close(plugged(x), (x * 0.5).sum().reshape(1))
    with pytest.raises(UsageError, match="has no number speed"):
        plugged.runner(x, speed=1.0)
    torch.library.opcheck(plugged.operator, (x,), {"scale": 3.0})


@pytest.mark.parametrize("level", ["naive", pytest.param("fused", marks=pytest.mark.thorough)])
def test_rows_and_layers_are_operators_too(level, shared):
    rows = operators.plug(source_of("gather_rows", "packed", shared))
    table, idx = torch.randn(30, 24).half(), torch.tensor([3, 29, 3, 0])
    assert torch.equal(rows(table, idx), table[idx])
    layer = operators.plug(source_of("sage_layer", level, shared))
    h, idx, indptr = torch.randn(20, 12), torch.randint(0, 20, (31,)), torch.tensor([0, 5, 5, 31])
    near, own, bias = torch.randn(12, 7), torch.randn(12, 7), torch.randn(7)
    mean = functional.embedding_bag(idx, h, indptr, mode="mean", include_last_offset=True)
    want = torch.relu(mean @ near + h[:3] @ own + bias)
    torch.testing.assert_close(layer(h, idx, indptr, near, own, bias), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match=r"root\.shape\[0\] is 11, but h\.shape\[1\] is 12: in every test"):
        layer.runner(h, idx, indptr, near, own[1:], bias)


def test_a_size_that_no_tensor_shows_must_be_named(shared):
    plugged = operators.plug(source_of("gather_mean_backward", "naive", shared))
    grad, idx, indptr = torch.randn(2, 3), torch.tensor([4]), torch.tensor([0, 1, 1])
    assert plugged(grad, idx, indptr, sources=6).shape == (6, 3)
    with pytest.raises(UsageError, match="needs sources: it is a size that no tensor shows"):
        plugged.runner(grad, idx, indptr)


def test_views_are_copied_for_kernels_that_load_wide(shared):
    rows = operators.plug(source_of("gather_rows", "packed", shared))
    table, idx = torch.randn(31, 24).half(), torch.tensor([1, 2])
    assert torch.equal(rows(table.t().contiguous().t(), idx), table[idx])
    assert torch.equal(rows(table.view(-1)[24:].view(30, 24)[:, :], idx), table[1:][idx])


# -- names in the cubin ------------------------------------------------------------------------------------------------


def test_every_kernel_of_the_plan_is_found_in_the_cubin(summed):
    names = launching.function_names(summed)
    assert set(names) == {"part", "whole"}
    assert names["part"].startswith("_Z4part")
    with pytest.raises(UsageError, match="cubin of scaled_sum was not kept in the store: test the kernel again"):
        launching.function_names(replace(summed, cubin=b""))
    renamed = tuple(replace(k, signature="other(int)") for k in summed.kernels)
    with pytest.raises(UsageError, match="does not hold part, whole: test it again"):
        launching.function_names(replace(summed, kernels=renamed))


def test_a_number_takes_the_width_of_its_parameter():
    codes = [("float", 4), ("double", 8), ("int", 4), ("long long", 8), ("unsigned int", 4), ("bool", 1), ("short", 2)]
    assert "".join(launching._code(base, size, pointer=False) for base, size in codes) == "fdiqIBh"
    assert launching._code("cute::half_t", 8, pointer=True) == "Q"


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_launched_is_refused_when_it_is_plugged_in(shared):
    text = (DATA / "transpose_tma.cu").read_text()
    with pytest.raises(UsageError, match=r"uses tensor maps \(TMA\), which hold addresses that change with every call"):
        made_of(load(str(DATA / "kernels" / "transpose.py")), text, shared)
    with pytest.raises(UsageError, match="does not compile, so it cannot be plugged in"):
        made_of(SUM, SCRATCH.replace("CLUSTER", "").replace("float sum = 0.0f;", ""), shared)


def test_blocks_in_clusters_run_on_the_emulator(shared):
    clustered = made_of(SUM, SCRATCH.replace("CLUSTER", "cluster = [2]"), shared)
    x = torch.randn(300)
    torch.testing.assert_close(operators.plug(clustered)(x, scale=2.0), (x * 2.0).sum().reshape(1))


# -- shapes ------------------------------------------------------------------------------------------------------------


def signature(table, idx, indptr, out, **scalars):
    named = [("table", "float32", table), ("idx", "int64", idx), ("indptr", "int64", indptr)]
    specs = tuple(TensorSpec(name, dtype, shape) for name, dtype, shape in named)
    return Signature(specs, (TensorSpec("out", "float32", out),), scalars)


def test_the_shapes_of_results_follow_from_the_workloads():
    found = shapes.derive([
        signature((9, 4), (7,), (4,), (3, 4), eps=0.5, k=2),
        signature((11, 4), (5,), (7,), (6, 4), eps=0.5, k=3),
    ])  # fmt: skip
    assert found.output_shapes([(100, 4), (8,), (33,)], [0.5, 9]) == [(32, 4)]
    assert found.required == ("k",)
    fit = shapes.compile_fit(found)
    assert fit([(100, 4), (8,), (33,)], [0.5, 9]) == [(32, 4)]
    assert fit([(100, 5), (8,), (33,)], [0.5, 9]) is None
    with pytest.raises(UsageError, match=r"table\.shape\[1\] is 5, but it was 4 in every test"):
        found.check([(100, 5), (8,), (33,)], [0.5, 9])


def test_a_result_that_follows_from_nothing_is_refused():
    with pytest.raises(
        UsageError, match=r"out\.shape\[0\] follows from no extent of an input and no number \(it is 3, 9"
    ):
        shapes.derive([signature((9, 4), (7,), (4,), (3, 4)), signature((11, 6), (5,), (7,), (9, 6))])
    with pytest.raises(UsageError, match="workloads differ in dtypes or ranks"):
        shapes.derive([signature((9, 4), (7,), (4,), (3, 4)), signature((11, 6), (5,), (7,), (9,))])
