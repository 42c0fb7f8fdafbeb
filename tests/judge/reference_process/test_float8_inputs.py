"""Inputs in 8-bit floats: they are drawn, changed, compared and linted like any other float."""

from __future__ import annotations

import pytest

from cutegen_core.records.problem import SPECIAL_VALUES, WHOLE_VALUES, Values
from tests.later import Later

torch = Later("torch")
derived_values = Later("cutegen_core.judge.reference_process.derived_values")
drawing = Later("cutegen_core.judge.reference_process.drawing")
input_facts = Later("cutegen_core.judge.reference_process.input_facts")
input_structure = Later("cutegen_core.judge.reference_process.input_structure")
lint_facts = Later("cutegen_core.judge.reference_process.lint_facts")
live = Later("cutegen_core.judge.reference_process.loading.live")

SOURCE = """
import torch, torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(33).to(torch.float8_e4m3fn), requires_grad=False)

    def forward(self, x, y):
        return torch.relu(x.float() * self.weight.float() + y.float()).to(torch.float8_e4m3fn)

def get_inputs():
    return [torch.randn(7, 33).to(torch.float8_e4m3fn), torch.randn(7, 33).to(torch.float8_e5m2)]
"""
DRAWN = [v for v in Values if v not in (Values.GIVEN, *WHOLE_VALUES, *SPECIAL_VALUES)]
DTYPES = ("float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", DRAWN)
def test_every_kind_of_values_fits_the_range(dtype, values):
    given = torch.randn(9, 64).to(getattr(torch, dtype))
    made = drawing.draw_adversarial(given, values, torch.Generator().manual_seed(1))
    assert (made.dtype, made.shape) == (given.dtype, given.shape)
    assert bool(torch.isfinite(made.float()).all())


def test_what_has_no_infinity_gets_its_largest_number():
    generator = torch.Generator().manual_seed(1)
    for dtype, most in zip(DTYPES, (448.0, float("inf")), strict=True):
        made = drawing.draw_special(torch.zeros(9, 64).to(getattr(torch, dtype)), Values.INFINITE, generator)
        assert float(made.float().abs().max()) == most
        nan = drawing.draw_special(torch.zeros(9, 64).to(getattr(torch, dtype)), Values.NAN, generator)
        assert bool(torch.isnan(nan.float()).any())


def test_kernels_are_judged_on_derived_values():
    found = dict(derived_values.find_derived(SOURCE, "here", finite=False))
    judged = {values for values, reason in found.items() if not reason}
    assert {Values.NAN, Values.NEGATIVE_MEAN, Values.SORTED, Values.CONSTANT, Values.INFINITE} <= judged, found
    alone = SOURCE.replace("torch.float8_e5m2", "torch.float8_e4m3fn")
    assert Values.INFINITE not in dict(derived_values.find_derived(alone, "here", finite=False))


def test_structure_facts_and_lint_can_read_them():
    structure = input_structure.find_structure(SOURCE, "here")
    assert not any(one.kept or one.repeats or one.zeros for one in structure.values())
    facts = input_facts.input_facts(SOURCE, "here")
    assert all(fact.matters for fact in facts.values())
    gathered = lint_facts.gather(SOURCE, "here", Values.GIVEN, relaxed=False)
    assert [o.dtype for o in gathered.outputs] == ["float8_e4m3fn"]
    weight = live.instantiate(SOURCE, "here").tensors["weight"].float()
    assert len(set(weight.tolist())) > 1, "a constant parameter is moved off its value"
