"""Blocks of networks as people write them, whose traces differ between sizes although they do the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

LAYERS = (("a", "[x, x]", 2), ("b", "[x, a]", 2), ("c", "[x, a, b]", 3))
"""Of a dense block: what each makes, of what, which is so many times as wide as the input."""


def test_attention_written_out_holds_for_all_heads_and_lengths(shared: SharedTools, tmp_path: Path) -> None:
    """The mask is sliced as a whole at one size, one head is not moved at another, and the scale follows both."""
    made = problem(
        "y", {"B": 2, "T": 8, "C": 32, "L": 8, "H": 4}, {"B": 3, "T": 5, "C": 6, "L": 9, "H": 1},
        init="self.heads = H; self.register_buffer('mask', torch.tril(torch.ones(L, L)).view(1, 1, L, L))",
        lines=(
            "B, T, C = x.shape",
            "q = x.view(B, T, self.heads, C // self.heads).transpose(1, 2)",
            "scores = (q @ q.transpose(-2, -1)) * (1.0 / q.size(-1) ** 0.5)",
            "scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float('-inf'))",
            "y = (torch.softmax(scores, dim=-1) @ q).transpose(1, 2).contiguous().view(B, T, C)",
        ),
        x="torch.randn(B, T, C)",
    )  # fmt: skip
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


def test_dimensions_are_rearranged_by_einops(shared: SharedTools, tmp_path: Path) -> None:
    made = problem(
        "rearrange(x, 'b (h d) t -> b h t d', h=4) * 2, reduce(x, 'b c (t two) -> b c t', 'max', two=2), "
        "repeat(x[:, 0], 'b t -> b t n', n=3)",
        {"B": 2, "C": 8, "T": 6}, {"B": 3, "C": 4, "T": 10},
        init="pass", lines=("from einops import rearrange, reduce, repeat",), x="torch.randn(B, C, T)",
    )  # fmt: skip
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


def test_an_index_takes_the_same_elements_whatever_it_is_made_of(shared: SharedTools, tmp_path: Path) -> None:
    results = (
        "x[:, :T, 0] * 2, x[..., :T].sum(1), x[0, :T][:, 1:], x[None, :, -3:, [0, 2]], x[:, torch.arange(2), :4], "
        "x[1:9, None, ..., :4], x[::2, :, 1::2], x[[0, 2]][:], x[x.shape[0] - 1, ..., ::3], y"
    )
    lines, draw = ("T = y.shape[0]",), {"x": "torch.randn(N, 5, 5)", "y": "torch.randn(T)"}
    made = problem(f"({results})", {"N": 3, "T": 5}, {"N": 4, "T": 4}, lines=lines, **draw)
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


def test_a_part_that_is_all_of_a_tensor_is_written(shared: SharedTools, tmp_path: Path) -> None:
    lines = ("T = y.shape[0]", "z = torch.zeros_like(x)", "z[:, :T] = x[:, :T] * y", "z[:1, 2:4] = 7.0")
    draw = {"x": "torch.randn(N, 5)", "y": "torch.randn(T)"}
    made = problem("z", {"N": 3, "T": 5}, {"N": 4, "T": 3}, lines=lines, **draw)
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_numbers_made_of_sizes_follow_them(every: bool, shared: SharedTools, tmp_path: Path) -> None:
    """As people write edges, halves that are not equal, shares of at least one, and means by hand."""
    forward = (
        "x / max(C - 1, 1), x * (2.0 / C), F.pad(x, (0, (8 - C % 8) % 8)), x[:, C - C // 2 :] + 1, "
        "x[:, : max(int(0.1 * C), 1)] * 2, F.pad(x, ((R - C) // 2, (R - C) - (R - C) // 2))"
    )
    made = problem(forward, {"R": 40, "C": 24}, {"R": 24, "C": 13}, lines=["R, C = x.shape"], x="torch.randn(R, C)")
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last) if every else (first,), made.workloads, shared, tmp_path)


def test_each_product_of_a_dense_block_is_made_once(shared: SharedTools, tmp_path: Path) -> None:
    """Read what is joined for one layer there, in the layers that follow it."""
    lines = [f"{made} = torch.relu(torch.cat({given}, 1) @ w[:, : {width} * C].t())" for made, given, width in LAYERS]
    draw = {"x": "torch.randn(B, C)", "w": "torch.randn(C, 9 * C)"}
    made = problem(
        "torch.cat([x, a, b, c], 1), b.softmax(1)",
        {"B": 12, "C": 20}, {"B": 5, "C": 3}, lines=lines, **draw,
    )  # fmt: skip
    naive, *_ = variants_of(made, shared, tmp_path)
    launches = kernel_file.parse(naive.source).launches
    assert sum("product" in launch.kernel for launch in launches) == len(LAYERS)
    assert_right(made, [naive], made.workloads, shared, tmp_path)
