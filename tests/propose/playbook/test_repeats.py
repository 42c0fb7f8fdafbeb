"""Regions whose kernels are the same but for names share one: of equal layers, of a loop's steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.records.problem import Problem
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

LAYERS = 11


def layered(*layers: str, init: str = "") -> Problem:
    """Return a problem whose layers follow one another."""
    lines = [f"x = {layer}" for layer in layers]
    weights = f"self.w = nn.ParameterList([nn.Parameter(torch.randn(32, 32) / 6) for _ in range({LAYERS})])"
    return problem("x", {"B": 64}, {"B": 19}, init=init or weights, lines=lines, x="torch.randn(B, 32)")


def test_equal_layers_share_a_kernel(shared: SharedTools, tmp_path: Path) -> None:
    """Each launch gives it the layer's own weight."""
    made = layered(*(f"torch.tanh(x @ self.w[{k}])" for k in range(LAYERS)))
    naive, *_, last = variants_of(made, shared, tmp_path)
    for variant in (naive, last):
        assert not re.search(r"\n{3}|\n\n$", variant.source)
        launches = kernel_file.parse(variant.source).launches
        assert len({launch.kernel.split("<")[0] for launch in launches}) == variant.source.count("__global__") <= 2
        assert {f"w_{k}" for k in range(LAYERS)} < {arg.expression.text for launch in launches for arg in launch.args}
    assert_right(made, (naive,), made.workloads, shared, tmp_path)


def test_steps_of_a_loop_share_kernels(shared: SharedTools, tmp_path: Path) -> None:
    lines = ["h = torch.zeros(x.shape[0], 8)", "for t in range(4):", "    h = torch.tanh(x[:, t] + h @ self.w)"]
    made = problem(
        "h", {"B": 64}, {"B": 5}, init="self.w = nn.Parameter(torch.randn(8, 8))", lines=lines, x="torch.randn(B, 4, 8)"
    )
    variants = variants_of(made, shared, tmp_path)
    assert max(variant.source.count("__global__") for variant in variants) <= 4
    assert_right(made, variants[:1], made.workloads, shared, tmp_path)


LOOPS = {
    "rows and columns in turn": (
        8, "x", ["x = x - torch.logsumexp(x, 1, keepdim=True)", "x = x - torch.logsumexp(x, 0, keepdim=True)"], []
    ),
    "of halves": (8, "x", ["x = (x.half() - torch.logsumexp(x.half(), 0, keepdim=True)).float()"], []),
    "a state that is read out": (
        16, "torch.stack(y, 1)", ["h = torch.exp(x[:, t : t + 1]) * h + x", "y.append((h * x).sum(1))"],
        ["h, y = 0 * x, []"],
    ),
    "a state to which norms of it are added": (8, "x", ["x = x + F.silu(F.layer_norm(x, x.shape[1:]))"], []),
    "neighbours": (10, "x", ["x = x + 0.1 * (torch.roll(x, 1, 0) + torch.roll(x, -1, 1) - 2 * x)"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_has_not_many_more_kernels_for_more_steps(name: str, shared: SharedTools, tmp_path: Path) -> None:
    """Read what the steps before have made, and do not make it again."""
    steps, result, body, before = LOOPS[name]

    def looped(count: int) -> Problem:
        lines = [*before, f"for t in range({count}):", *(f"    {line}" for line in body)]
        return problem(result, {"R": 24, "C": 48}, {"R": 5, "C": 37}, lines=lines, x="torch.randn(R, C)")

    made = looped(steps)
    variants, longer = variants_of(made, shared, tmp_path), variants_of(looped(2 * steps), shared, tmp_path)
    for few, many in zip(variants, longer, strict=True):
        assert many.source.count("__global__") <= few.source.count("__global__") + 6
        assert len(many.source) < 2 * len(few.source)
    assert_right(made, variants[:1], made.workloads, shared, tmp_path)


@pytest.mark.parametrize(
    "layers",
    [
        ("torch.tanh(x @ self.w[0])", "torch.sigmoid(x @ self.w[1])"),
        ("x @ self.w[0] * 2", "x @ self.w[1] * 3"),
        ("x @ self.w[0]", "x @ self.w[1].t()"),
        ("(x - x.amax(1, keepdim=True)) / 3", "(x @ self.w[0]).softmax(1)", "(x - x.amin(1, keepdim=True)) / 3"),
    ],
)
def test_what_differs_in_more_than_names_has_kernels_of_its_own(
    layers: tuple[str, ...], shared: SharedTools, tmp_path: Path
) -> None:
    made = layered(*layers)
    naive, *_ = variants_of(made, shared, tmp_path)
    assert naive.source.count("__global__") >= 2
    assert_right(made, (naive,), made.workloads, shared, tmp_path)


def test_layers_of_other_widths_share_the_text_but_not_the_parameters(shared: SharedTools, tmp_path: Path) -> None:
    """A tile that suits one may not suit the other; what suits both is tuned for both."""
    init = "self.a = nn.Parameter(torch.randn(32, 4096)); self.b = nn.Parameter(torch.randn(4096, 8))"
    made = layered("torch.tanh(x @ self.a)", "torch.tanh(x @ self.b)", init=init)
    variants = variants_of(made, shared, tmp_path)
    for variant in variants:
        launches = kernel_file.parse(variant.source).launches
        assert {arg.expression.text for launch in launches for arg in launch.args} >= {"a", "b"}
    assert_right(made, variants[:1], made.workloads, shared, tmp_path)


def test_sizes_of_many_layers_are_made_of_those_of_the_layers_before(shared: SharedTools, tmp_path: Path) -> None:
    """The text of each would hold those of all before it, and a plan of a large network would not fit into a file."""
    init = "self.w = nn.ParameterList([nn.Parameter(torch.randn(4, 4, 3, 3) / 6) for _ in range(6)])"
    lines = [
        "for w in self.w:",
        "    x = torch.relu(F.conv2d(F.interpolate(x, scale_factor=2), w, padding=(x.shape[2] % 2, 1)))",
        "    x = F.avg_pool2d(x, 2)",
    ]
    made = problem("x", {"S": 16}, {"S": 11}, init=init, lines=lines, x="torch.randn(2, 4, S, S + 1)")
    variants = variants_of(made, shared, tmp_path)
    for variant in variants:
        _, numbers = variant.source.split("[params]")[0].split("[let]")
        assert max(map(len, numbers.splitlines())) < 120
    assert_right(made, variants[:1], made.workloads, shared, tmp_path)


def test_a_statistic_stored_with_a_piece_is_there_where_the_piece_is_empty(shared: SharedTools, tmp_path: Path) -> None:
    """Launch the kernel that stores it for none of the piece's elements, too: what follows reads it."""
    lines = ["part = x[:, : C - 13]", "s = (part * part).sum(1)"]
    results = "torch.cat((part * s[:, None], x[:, :2]), 1), (z / (1 + s)).sum(1)"
    made = problem(
        results, {"R": 24, "C": 24}, {"R": 19, "C": 13}, lines=lines, x="torch.randn(R, C)", z="torch.randn(5, R)"
    )
    variants = variants_of(made, shared, tmp_path)
    assert_right(made, variants[:1], made.workloads, shared, tmp_path)
