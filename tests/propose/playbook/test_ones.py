"""Dimensions that are 1 in the workload that kernels are written from, and longer in another: they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cutegen_core.records.problem import Problem, WorkloadRole
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools


def of(forward: str, sizes: Mapping[str, int], awkward: Mapping[str, int], **draw: str) -> Problem:
    return problem(forward, sizes, awkward, **draw)


ROWS = {"B": 1, "N": 4096}, {"B": 2, "N": 37}
TABLES = {"B": 1, "M": 64, "N": 1024}, {"B": 2, "M": 5, "N": 37}
IMAGES = {"B": 1, "C": 8, "N": 32}, {"B": 3, "C": 8, "N": 9}
HEADS = {"B": 1, "H": 2, "S": 64, "D": 32}, {"B": 2, "H": 3, "S": 9, "D": 32}
QKV = dict.fromkeys("qkv", "torch.randn(B, H, S, D)")
ROW, TABLE, IMAGE = {"x": "torch.randn(B, N)"}, {"x": "torch.randn(B, M, N)"}, {"x": "torch.randn(B, C, N, N)"}
CASES = {
    "broadcast": of("x * y", *TABLES, **TABLE, y="torch.randn(B, 1, N)"),
    "softmax of rows": of("torch.softmax(x, -1)", *ROWS, **ROW),
    "one row a table": of("torch.softmax(x, -1)", {"B": 4, "M": 1, "N": 1024}, TABLES[1], **TABLE),
    "sum of columns": of("x.sum(1)", *TABLES, **TABLE),
    "sum of one element": of("x.sum(-1)", {"B": 4096, "N": 1}, ROWS[1], **ROW),
    "mean over the batch": of("x - x.mean(0)", *ROWS, **ROW),
    "batch norm": of("x - x.mean((0, 2, 3), keepdim=True)", *IMAGES, **IMAGE),
    "group norm": of("F.group_norm(x, 4)", *IMAGES, **IMAGE),
    "joined": of("torch.cat([x, x * 2], 1)", *TABLES, **TABLE),
    "reshaped": of("(x.reshape(x.shape[0], -1) * 2).sum(1)", *TABLES, **TABLE),
    "outer": of("a[:, None] * b[None, :]", *ROWS, a="torch.randn(B)", b="torch.randn(N)"),
    "masked": of("(x + m).softmax(-1)", *TABLES, **TABLE, m="torch.randn(B, 1, N)"),
    "scan": of("torch.cumsum(x, 1)", *ROWS, **ROW),
    "position": of("torch.argmax(x, 1)", *ROWS, **ROW),
    "loss": of("F.cross_entropy(x, t)", *ROWS, **ROW, t="torch.randint(0, N, (B,))"),
    "products": of("torch.bmm(x, x.mT)", *TABLES, **TABLE),
    "linear": of("x @ w.T", *TABLES, **TABLE, w="torch.randn(N, N)"),
    "convolution": of("F.conv2d(x, w, padding=1)", *IMAGES, **IMAGE, w="torch.randn(4, C, 3, 3)"),
    "pooling": of("F.max_pool2d(x, 2)", *IMAGES, **IMAGE),
    "attention": of("F.scaled_dot_product_attention(q, k, v)", *HEADS, **QKV),
    "one head": of("F.scaled_dot_product_attention(q, k, v)", {**HEADS[0], "B": 2, "H": 1}, HEADS[1], **QKV),
}  # fmt: skip
ALWAYS = ("broadcast",)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.thorough) for name in CASES if name not in ALWAYS)]
)
def test_a_dimension_of_one_that_another_workload_changes_stays(
    name: str, every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    """By the first kernel and the last one, or by the first."""
    case = CASES[name]
    first, *others = variants_of(case, shared, tmp_path)
    assert_right(
        case, (first, *others[-1:]) if every else (first,), case.with_role(WorkloadRole.EMULATOR), shared, tmp_path
    )


def test_a_dimension_that_is_always_one_is_not_walked(shared: SharedTools, tmp_path: Path) -> None:
    case = problem("x * y", {"N": 4096}, {"N": 37}, x="torch.randn(1, N)", y="torch.randn(N)")
    assert "shape[0]" not in variants_of(case, shared, tmp_path)[0].source.replace("y.shape[0]", "")
