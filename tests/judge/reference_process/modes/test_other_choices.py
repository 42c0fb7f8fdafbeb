"""What PyTorch leaves open: which of equal elements is taken, and how distances are computed."""

from __future__ import annotations

import pytest

from cutegen_core.records.problem import Values
from tests.later import Later

torch = Later("torch")
choices = Later("cutegen_core.judge.reference_process.modes.other_choices")
derived = Later("cutegen_core.judge.reference_process.derived_values")
expected = Later("cutegen_core.judge.reference_process.expected")
worker = Later("cutegen_core.judge.reference_process.worker")
live = Later("cutegen_core.judge.reference_process.loading.live")

EQUAL = [2.0, 7.0, 7.0, 1.0, 7.0, 3.0, 9.0]
PLACES = {
    "x.topk(3)[1]": ([6, 1, 2], [6, 4, 2]),
    "x.topk(3, largest=False)[1]": ([3, 0, 5], [3, 0, 5]),
    "x.topk(2, -1)[1]": ([6, 1], [6, 4]),
    "x.sort(descending=True)[1]": ([6, 1, 2, 4, 5, 0, 3], [6, 4, 2, 1, 5, 0, 3]),
    "x.argsort()": ([3, 0, 5, 1, 2, 4, 6], [3, 0, 5, 4, 2, 1, 6]),
    "torch.sort(x, stable=True, dim=0)[1]": ([3, 0, 5, 1, 2, 4, 6], [3, 0, 5, 1, 2, 4, 6]),
    "x.kthvalue(5)[1]": (1, 4),
    "x[None].kthvalue(5, 1, True)[1]": ([[1]], [[4]]),
    "x[:5].median(0)[1]": (1, 4),
    "x[None].median(1, keepdim=True)[1]": ([[1]], [[4]]),
    "x[:, None].mode(0)[1]": ([1], [4]),
    "x.double().nanmedian(0)[1]": (1, 4),
    "x.long().topk(2)[1]": ([6, 1], [6, 4]),
    "x.topk(2)[0]": ([9.0, 7.0], [9.0, 7.0]),
    "x.repeat(2, 1).topk(2)[0].view(4)": ([9.0, 7.0, 9.0, 7.0], [9.0, 7.0, 9.0, 7.0]),
    "torch.tensor(3.0).topk(1)[1]": (0, 0),
}
MODEL = """
import torch, torch.nn as nn
N = 16
class Model(nn.Module):
    def forward(self, x):
        return {forward}
def get_inputs():
    return [torch.{drawn}]
def get_init_inputs():
    return []
"""
ROUTED = "torch.zeros_like(x).scatter(-1, x.topk(2)[1], x.topk(2)[0].softmax(-1))"


def made(forward: str, drawn: str = "randn(12, N)") -> str:
    return MODEL.format(forward=forward, drawn=drawn)


@pytest.mark.parametrize(("call", "places"), PLACES.items(), ids=PLACES)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_the_first_or_the_last_of_equal_elements_is_taken(call: str, places, last: bool) -> None:
    x = torch.tensor(EQUAL)
    with choices.OtherChoices(last=last):
        found = eval(call, {"torch": torch, "x": x})
    assert found.tolist() == places[last]


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_nan_are_equal_to_one_another(last: bool) -> None:
    x = torch.tensor([1.0, torch.nan, 2.0, torch.nan])
    with choices.OtherChoices(last=last):
        assert x.topk(1)[1].item() == (3 if last else 1)
        assert x.median(0)[1].item() == (3 if last else 1)


def test_distances_are_those_of_differences() -> None:
    far, near = torch.full((30, 2), torch.inf), torch.ones(30, 2)
    assert torch.cdist(far, near).isnan().all()
    with choices.OtherChoices(last=False) as asked:
        assert torch.cdist(far, near).isinf().all()
    assert asked.met == {"cdist"}


@pytest.mark.parametrize(
    ("forward", "drawn", "depends"),
    [
        (ROUTED, "randn(12, N)", False),
        (ROUTED, "randint(0, 5, (12, N)).float()", True),
        ("x.topk(3)[0].sum(-1)", "randint(0, 5, (12, N)).float()", False),
        ("x.sort()[0] * 2", "randint(0, 5, (12, N)).float()", False),
        ("x.sort(stable=True, dim=1)[1]", "randint(0, 5, (12, N)).float()", False),
        ("x.gather(1, x.argsort(1)) + x.argsort(1)", "randint(0, 5, (12, N)).float()", True),
        ("torch.cdist(x, x + 1)", "randn(40, N)", False),
        ("x * 2", "zeros(12, N)", False),
    ],
)
def test_what_depends_on_a_choice_is_found(forward: str, drawn: str, depends: bool) -> None:
    one = live.instantiate(made(forward, drawn), "here")
    found = expected.find_open_choices(one, expected.expect(one))
    assert (found is not None) == depends


def test_what_float32_makes_equal_is_left_open_too() -> None:
    """In float64 the first is the largest; rounded to float32 all are 1, and the last is as right."""
    text = made("(x * 1e-9 + 1).topk(1)[1]", "arange(16.0).flip(0)[None]")
    one = live.instantiate(text, "here")
    assert [chosen.item() for (chosen,) in expected.run_choices(one)] == [0, 15]
    drawn = derived.Drawn(one, ())
    found = derived.find_basis(drawn, expected.expect(one), Values.WIDE, text)
    assert found == "an output of whole numbers changes with the rounding of the inputs"


@pytest.mark.parametrize("values", [Values.CONSTANT, Values.SPARSE])
def test_no_kernel_is_judged_on_other_values_where_the_result_is_left_open(values: Values) -> None:
    text = made(ROUTED)
    reasons = dict(derived.find_derived(text, "here", finite=False))
    assert "PyTorch leaves open which of equal elements topk takes" in reasons[values]
    assert not reasons[Values.WIDE]


@pytest.mark.parametrize(
    ("forward", "left_out"),
    [("x.log_softmax(-1).view(-1).topk(3)[1] % 5", "smallest"), ("x.relu().topk(2)[1]", "sparse")],
)
def test_sizes_and_values_at_which_the_result_is_left_open_are_not_derived(forward: str, left_out: str) -> None:
    names = {one.name for one in workloads(made(forward))}
    assert {"smallest", "sparse"} - names == {left_out}
    assert "large_mean" in names


def test_a_file_that_draws_equal_elements_keeps_all_of_its_workloads() -> None:
    names = {one.name for one in workloads(made(ROUTED, "randint(0, 5, (12, N)).float()"))}
    assert {"reduced", "sparse"} <= names


def workloads(text: str):
    return worker.reduction.derive(text, "here", worker._TorchProbe())
