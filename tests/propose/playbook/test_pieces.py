"""Rows that lie in several pieces are read by vectors: the images of a channel, every workload by the same launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.propose.playbook import Target
from tests.propose.playbook.right import DEVICE, assert_right, problem, variants_of
from tests.shared_tools import SharedTools

SIZES = {"B": 4, "C": 300, "N": 28}
CASES = {
    "a norm of channels": problem(
        "F.relu(self.norm(x))", SIZES, {"B": 3, "C": 5, "N": 9},
        init="self.norm = nn.BatchNorm2d(C)", x="torch.randn(B, C, N, N)",
    ),
    "whole vectors in another workload": problem(
        "x - x.mean((0, 2), keepdim=True)", SIZES, {"B": 3, "C": 5, "N": 32}, x="torch.randn(B, C, N)"
    ),
    "of halves, with what is the same for all rows": problem(
        "(x * y - (x * y).amax((0, 2), keepdim=True), y)", SIZES, {"B": 2, "C": 3, "N": 21},
        x="torch.randn(B, C, N).half()", y="torch.randn(N).half()",
    ),
    "what lies across": problem(
        "torch.exp(x - y.transpose(0, 2).sum((0, 2), keepdim=True))", SIZES, {"B": 4, "C": 7, "N": 12},
        x="torch.randn(B, C, N)", y="torch.randn(N, C, B)",
    ),
    "sums alone": problem("(x * x).sum((0, 2, 3))", SIZES, {"B": 3, "C": 4, "N": 6}, x="torch.randn(B, C, N, N)"),
}  # fmt: skip


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", CASES)
def test_rows_of_pieces_are_right_at_all_sizes(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = CASES[name]
    *_, last = variants_of(made, shared, tmp_path, Target(DEVICE))
    assert "pieces" in last.idea
    signature = shared.reference(made, tmp_path).signature(made.workloads[0])
    kernel = kernel_file.parse(last.source)
    assert len(kernel.launches) == len(kernel.plan(signature, DEVICE, kernel.defaults()).launches)
    assert_right(made, (last,), made.workloads[1:], shared, tmp_path, compiled=True)
