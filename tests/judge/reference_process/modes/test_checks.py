"""Checks of values, which a trace goes past, and branches, which it does not follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.judge.reference import Reference
from cutegen_core.problems.library import Loader, read_problem

MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
        return x * 2 + 1
def get_inputs():
    return [torch.rand({rows}, 64)]
def get_init_inputs():
    return []
"""
CHECKS = {
    "assert": "assert x.min() >= 0, 'not below zero'",
    "raise": "if torch.isnan(x).any(): raise ValueError('no number')",
    "several": "assert (x >= 0).all()\n        assert not torch.isinf(x).any()\n        assert x.max() < 2",
    "distribution": "x = torch.distributions.Categorical(logits=x).probs",
}
BRANCHES = {
    "both go on": "if x.sum() > 0: x = x + 1",
    "the error of an operation": "x = x if x.sum() > 0 else x.view(-1, 7)",
    "a number": "x = x * x.sum().item()",
}


def _traced(body: str) -> object:
    from cutegen_core.judge.reference_process import tracing

    return tracing.trace(MODEL.format(body=body, rows=4), "model.py")


@pytest.mark.parametrize("case", CHECKS)
def test_checks_are_taken_as_passed(case: str) -> None:
    graph = _traced(CHECKS[case])
    assert not graph.reason
    assert [node.op for node in graph.nodes][-2:] == ["aten.mul", "aten.add"]


@pytest.mark.parametrize("case", BRANCHES)
def test_branches_are_not_followed(case: str) -> None:
    assert "a number or a branch depends on a tensor's values" in _traced(BRANCHES[case]).reason


def test_a_reference_with_checks_is_loaded_and_traced_whatever_its_size(tmp_path: Path) -> None:
    path = tmp_path / "checked.py"
    path.write_text(MODEL.format(body=CHECKS["assert"], rows=1 << 24))
    with Loader() as loader:
        problem = loader.complete(read_problem(path))
    with Reference(problem, tmp_path / "work") as opened:
        assert opened.graph(problem.workloads[-1]).nodes
