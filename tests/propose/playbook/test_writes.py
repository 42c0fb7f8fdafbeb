"""Writes to parts of a tensor: right where all that follows can read the new tensor, refused where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.records.problem import Problem
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

WRITES = {
    "parts and parts of parts": """
        z = x.clone()
        z[:, 0] = 0.0
        z[:, 2:5] = y[:, :3]
        z[1, 3:] += 1
        z[-2:, ::2] *= 2
        return z * 2, z.sum(1)""",
    "a tensor filled piece by piece": """
        z = torch.empty(x.shape[0], 2 * x.shape[1])
        z[:, ::2] = x
        z[:, 1::2] = y
        return z""",
    "each column made of the one before": """
        z = x.clone()
        for n in range(1, 4):
            z[:, n] = z[:, n] + 0.5 * z[:, n - 1]
        return z""",
    "whole tensors and what a mask chooses": """
        z = torch.empty_like(x)
        z.copy_(y)
        z[z > 1] = 1.0
        w = z.clone().fill_(2.0)
        return z + w.zero_()""",
    "columns, and elements of two and of three dimensions, that tensors name": """
        k = torch.arange(4)
        z = x.clone()
        z[:, 2 * k] = y[:, :4]
        z[k, k + 1] += 1
        z[k[:, None], k[:2] - 2] = 5.0
        w = torch.stack((x, y, x))
        w[:, k] += 2
        w[k[:3], :, k[1:]] = x[:, 0] * 2
        return z, w""",
}


def case(body: str) -> Problem:
    init = f"def f(x, y):{body.replace(chr(10), chr(10) + '    ')}\n        self.f = f"
    drawn = {"x": "torch.randn(R, C)", "y": "torch.randn(R, C)"}
    return problem("self.f(x, y)", {"R": 16, "C": 32}, {"R": 5, "C": 9}, init, **drawn)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_parts_are_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(WRITES[name])
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[1:], shared, tmp_path)


@pytest.mark.parametrize("view", ["z[:, 0]", "z.view(-1)[:5]"])
def test_another_view_read_afterwards_has_no_kernel(view: str, shared: SharedTools, tmp_path: Path) -> None:
    body = f"""
        z = x + y
        a = {view}
        z[:, 0:3] = 0
        return z.sum() + a"""
    with pytest.raises(NotInPlaybook, match=r"'aten.fill_' of what is read by another name, too"):
        variants_of(case(body), shared, tmp_path)


NORM = "self.norm = nn.BatchNorm1d(C)"


@pytest.mark.parametrize(
    ("init", "forward", "reason"),
    [
        (NORM, "self.norm(x) + self.norm.running_mean", "'aten.batch_norm' in training whose running statistics"),
        (NORM, "self.norm(x), self.norm.running_var * 2", "'aten.batch_norm' in training whose running statistics"),
        (NORM, "(lambda y: self.norm.eval()(y))(self.norm.train()(x))", "'aten.batch_norm' in training whose running"),
        ("pass", "F.embedding(i, x, max_norm=1.0)", "'aten.embedding_renorm_' of what is read by another name"),
    ],
)
def test_what_an_operation_writes_that_is_not_its_result_is_not_read(
    init: str, forward: str, reason: str, shared: SharedTools, tmp_path: Path
) -> None:
    drawn = {"x": "torch.randn(R, C)", "i": "torch.randint(0, R, (7,))"}
    made = problem(forward, {"R": 16, "C": 32}, {"R": 5, "C": 32}, init, **drawn)
    with pytest.raises(NotInPlaybook, match=reason):
        variants_of(made, shared, tmp_path)


def test_a_norm_in_training_may_be_used_twice(shared: SharedTools, tmp_path: Path) -> None:
    made = problem(
        "self.norm(F.relu(self.norm(x)))", {"R": 16, "C": 32}, {"R": 5, "C": 32}, NORM, x="torch.randn(R, C)"
    )
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[1:], shared, tmp_path)
