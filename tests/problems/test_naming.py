"""A problem that nobody named has a name made of its text."""

from __future__ import annotations

import pytest

from cutegen_core.problems import naming

TEXT = """
import torch
import torch.nn as nn
import torch.nn.functional as F

{before}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x, y):
        {forward}

def get_inputs():
    return [torch.randn(4, 4), torch.randn(4, 4)]
"""
NORM = "class GroupedRMSNorm(nn.Module):\n    pass"


@pytest.mark.parametrize(
    ("before", "init", "forward", "name"),
    [
        ("", "pass", "return torch.softmax(x, 1)", "softmax"),
        ("", "self.a = nn.Conv2d(3, 4, 3)", "return torch.relu(self.a(x.view(1, -1)) + y)", "conv2d_relu"),
        ("", "self.a = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU())", "return self.a(x)", "linear_leaky_relu"),
        ("", "pass", "return x @ y.transpose(0, 1)", "matmul"),
        ("", "pass", "return x + y", "add"),
        (NORM, "self.norm = GroupedRMSNorm()", "return F.gelu(self.norm(x))", "grouped_rms_norm"),
        ("def swiglu(a, b):\n    return a", "pass", "return swiglu(x, y.sum())", "swiglu"),
        (
            NORM,
            "self.all = nn.ModuleList([GroupedRMSNorm()])",
            "for b in self.all: x = b(x)\n        return x",
            "grouped_rms_norm",
        ),
        ("", "pass", "f = F.silu if self.training else F.relu; return f(x)", "problem"),
        ("", "pass", "return x", "problem"),
        ("", "pass", "return torch.gelu(", "problem"),
        ("", "pass", "return x.größe()", "gre"),
    ],
)
def test_the_name_says_what_is_computed(before: str, init: str, forward: str, name: str) -> None:
    assert naming.name_of(TEXT.format(before=before, init=init, forward=forward)) == name


def test_a_model_that_is_another_class_has_its_name() -> None:
    text = "class FusedMLP:\n    pass\n\nModel = FusedMLP\n\ndef get_inputs():\n    return []\n"
    assert naming.name_of(text) == "fused_mlp"


def test_a_taken_name_gets_the_first_free_number() -> None:
    assert [naming.unused("a", taken) for taken in ((), {"a"}, {"a", "a_2"}, {"a_2"})] == ["a", "a_2", "a_3", "a"]
