"""The comparison of gigabytes on a GPU says what the one on the CPU says; here on CPU tensors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import OutputValues
from cutegen_core.records.problem import Tolerance
from tests.later import Later

torch = Later("torch")
comparison = Later("cutegen_core.judge.gpu.comparison")

POISON = 0xFF
TOLERANCE = Tolerance(1e-5, 1e-4)
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-42, 3.0e38, 3.402823e38, -65504.0)


def both(got, want, declared, dtype, tolerance=TOLERANCE, others=()):
    """Return the CPU's verdict and the GPU's formula's on the same tensors."""
    raw = got.contiguous().view(torch.uint8).reshape(got.numel(), got.element_size())
    array = [
        None if t is None else (t.double() if t.is_floating_point() else t).numpy()
        for t in (got, want, declared, *others)
    ]
    answer = OutputValues(*array[:3], (raw == POISON).all(dim=1).reshape(got.shape).numpy(), tuple(array[3:]))
    precision = None
    if declared is not None:
        precision = correctness.measure(answer.want, answer.declared, dtype)
        measured = comparison.measure(want, declared, dtype)
        assert measured.typical == pytest.approx(precision.typical)
        assert replace(measured, typical=precision.typical) == precision
    right = [comparison.RightElements(t.reshape(-1), rows=comparison.row_means(t, dtype)) for t in (want, *others)]
    first = replace(right[0], declared=None if declared is None else declared.reshape(-1))
    flat = comparison.Elements(got.reshape(-1), (first, *right[1:]))
    rule = comparison.OutputRule(dtype, tolerance, precision)
    there = comparison.compare("out", flat, tuple(got.shape), rule, POISON)
    return correctness.compare("out", dtype, tolerance, answer, precision), there


def same(here, there):
    assert replace(there, first=(), heatmap=()) == replace(here, first=(), heatmap=())
    assert [(m.index, str(m.got), str(m.want)) for m in there.first] == [
        (m.index, str(m.got), str(m.want)) for m in here.first
    ]
    assert np.allclose(here.heatmap, there.heatmap)


@settings(max_examples=60)
@given(st.data())
def test_both_give_the_same_verdict(data):
    dtype = data.draw(st.sampled_from(["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]))
    shape = data.draw(st.sampled_from([(1,), (7,), (3, 5), (2, 3, 4)]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 30)))
    want = torch.randn(shape, generator=generator, dtype=torch.float64)
    declared = (want.float() if dtype == "float64" else want).to(getattr(torch, dtype))  # made of narrower ones
    noise = data.draw(st.sampled_from([0.0, 1e-7, 1e-4, 1.0]))
    got = (want + noise * torch.randn(shape, generator=generator, dtype=torch.float64)).to(getattr(torch, dtype))
    for tensor in (got, want, declared):
        for value in data.draw(st.lists(st.sampled_from(SPECIAL), max_size=3)):
            tensor.view(-1)[data.draw(st.integers(0, tensor.numel() - 1))] = value
    if data.draw(st.booleans()):
        got.view(-1).view(torch.uint8)[:4] = POISON
    others = [torch.where(torch.rand(shape, generator=generator) < 0.5, got.double(), want)] * data.draw(
        st.integers(0, 1)
    )
    same(*both(got, want, data.draw(st.sampled_from([declared, None])), dtype, others=others))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16"])
def test_an_infinite_result_is_no_overflow(dtype):
    want, nothing = torch.tensor([float("inf")], dtype=torch.float64), torch.full((1,), float("nan"))
    here, there = both(nothing.to(getattr(torch, dtype)), want, nothing.to(getattr(torch, dtype)), dtype)
    same(here, there)
    assert here.wrong == (dtype != "float8_e4m3fn")  # which has no infinity: NaN is how it says so


@settings(max_examples=20)
@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.lists(st.integers(-3, 3), min_size=4, max_size=4))
def test_integers_must_be_equal_at_either_precision(got, want):
    tensors = [torch.tensor(v, dtype=torch.int32).reshape(2, 2) for v in (got, want, [0, 1, 2, 3])]
    same(*both(*tensors, "int32"))


def test_where_equal_elements_are_met_either_answer_is_right():
    want, other = torch.tensor([[3, 1], [2, 0]]), torch.tensor([[5, 1], [2, 7]])
    got = torch.tensor([[5, 1], [4, 0]])
    here, there = both(got, want, want, "int64", others=[other])
    same(here, there)
    assert there.wrong == 1


def test_an_output_nobody_wrote_is_called_that():
    want = torch.ones(8, 8, dtype=torch.float64)
    got = torch.full((8, 8), float("nan"))
    got.view(torch.uint8).fill_(POISON)
    here, there = both(got, want, want.float(), "float32")
    same(here, there)
    assert there.poison == 64
    assert "untouched" in there.pattern


def test_only_part_of_a_large_output_is_described(monkeypatch):
    monkeypatch.setattr(comparison, "_CHUNK", 64)
    monkeypatch.setattr(comparison, "_LOOKED_AT", 64)
    want = torch.arange(1024, dtype=torch.float64).reshape(64, 16)
    got = want.float()
    got[40:, -1] = 0.0
    here, there = both(got, want, want.float(), "float32")
    assert (there.wrong, there.total) == (24, 1024)
    assert there.first == here.first[: len(there.first)] != ()
    assert there.pattern.startswith("in the part looked at: ")
    assert "column" in there.pattern


@pytest.mark.parametrize("shape", [(1000,), (3, 1000), (2, 7, 300)])
def test_of_long_rows_too_only_a_part_leaves_the_device(monkeypatch, shape):
    monkeypatch.setattr(comparison, "_LOOKED_AT", 64)
    sizes = []
    describe_mismatch = correctness.describe_mismatch
    monkeypatch.setattr(correctness, "describe_mismatch", lambda *a: sizes.append(a[1].size) or describe_mismatch(*a))
    want = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = want.float()
    got[..., 200:210] = 0.0
    here, there = both(got, want, want.float(), "float32")
    assert sizes[0] <= 64
    assert there.wrong == here.wrong
    assert there.first == here.first
    assert np.allclose(here.heatmap, there.heatmap)
    assert there.pattern.startswith("in the part looked at: only elements 8 to 17")


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_output_is_right(shape):
    empty = torch.zeros(shape, dtype=torch.float64)
    _, there = both(empty.float(), empty, None, "float32")
    assert (there.wrong, there.total) == (0, 0)
