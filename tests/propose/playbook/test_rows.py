"""Kernels that walk rows: scans, positions, losses, norms, reductions over several blocks, attention."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import KNOWN
from cutegen_core.propose.playbook import NotInPlaybook, Target, cover, redirect
from cutegen_core.propose.playbook.variants import MOST_COMBINATIONS
from cutegen_core.records.problem import Problem
from tests.propose.playbook.right import DEVICE, assert_level_right, assert_right, problem, variants_of
from tests.shared_tools import SharedTools

ROWS = {"R": 4, "C": 64}
CUBE = {"R": 4, "C": 8, "D": 40}
HEADS = {"B": 2, "M": 40, "N": 48, "K": 80}
DRAW = {"x": "torch.randn(R, C)"}
PAIR = {"x": "torch.randn(R, C)", "y": "torch.randn(R, C)"}
SCANS = {
    "cumulative sum of long rows": problem("torch.cumsum(x, 1)", ROWS, {"R": 3, "C": 1030}, **DRAW),
    "cumulative sum of halves, scaled": problem(
        "torch.cumsum(x, -1) * 0.5 + y", {"R": 3, "C": 80}, {"R": 2, "C": 27},
        x="torch.randn(R, C).half()", y="torch.randn(C).half()"),
    "reversed": problem("torch.cumsum(x.flip(1), dim=1).flip(1)", ROWS, {"R": 3, "C": 533}, **DRAW),
    "exclusive": problem(
        "torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), torch.cumsum(x.narrow(1, 0, x.size(1) - 1), 1)), 1)",
        ROWS, {"R": 3, "C": 37}, **DRAW),
    "masked": problem(
        "torch.cumsum(x * mask, dim=1)", ROWS, {"R": 3, "C": 37}, **DRAW, mask="torch.rand(R, C) > 0.5"),
    "cumulative product of columns": problem("torch.cumprod(x, 0)", {"R": 9, "C": 40}, {"R": 7, "C": 5}, **DRAW),
    "cumulative product, parts of which are no floats": problem(
        "torch.cumprod(x, 1)", {"R": 3, "C": 48}, {"R": 2, "C": 37},
        x="torch.cat([torch.full((R, 8), 1e-4), torch.full((R, C - 8), 30.0)], 1)"),
    "largest so far, with NaN": problem(
        "torch.cummax(x, dim=1).values - y", ROWS, {"R": 3, "C": 133}, **PAIR | {
            "x": "torch.where(torch.rand(R, C) > 0.99, torch.nan, torch.randn(R, C))"}),
    "smallest whole number so far, of columns": problem(
        "torch.cummin(x, 0)[0]", {"R": 36, "C": 9}, {"R": 7, "C": 40}, x="torch.randint(-30, 30, (R, C))"),
    "sum of exponentials so far, the first of them 0": problem(
        "torch.logcumsumexp(x, 1)", ROWS, {"R": 3, "C": 1030},
        x="torch.cat([torch.full((R, 5), -torch.inf), 30 * torch.randn(R, C - 5)], 1)"),
    "one longer, as row pointers are": problem(
        "torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(n, 0)])", {"R": 300}, {"R": 37},
        n="torch.randint(0, 5, (R,))"),
    "joined and flipped": problem(
        "(torch.cat([x, y], 1), torch.relu(torch.cat([x, x * 2], 0)).flip(0, 1))", {"R": 4, "C": 40}, {"R": 3, "C": 13},
        **PAIR),
}  # fmt: skip
PLACES = {
    "position of the largest, with equals and NaN": problem(
        "torch.argmax(x, dim=1)", ROWS, {"R": 5, "C": 37},
        x="torch.where(torch.rand(R, C) > 0.97, torch.nan, torch.randn(R, C).round())"),
    "positions of the smallest whole numbers": problem(
        "torch.argmin(x, dim=0)", {"R": 36, "C": 9}, {"R": 7, "C": 40}, x="torch.randint(-3, 3, (R, C))"),
    "position among all, double": problem(
        "torch.argmax(x)", {"R": 4, "C": 30}, {"R": 3, "C": 7}, x="torch.randn(R, C).double()"),
    "largest with its position": problem("torch.max(x, 1)", ROWS, {"R": 5, "C": 37}, **DRAW),
    "triangles": problem(
        "(torch.triu(x, 1), torch.tril(x, -1), torch.tril(x @ y))", {"R": 40, "C": 40}, {"R": 13, "C": 13}, **PAIR),
}  # fmt: skip
LOSSES = {
    "of elements": problem(
        "(F.huber_loss(x, y, delta=0.7), F.smooth_l1_loss(x, y, beta=0.5, reduction='sum'), F.soft_margin_loss(x, y),"
        " F.kl_div(x, y.abs().floor(), reduction='batchmean'), F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)),"
        " F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)))",
        ROWS, {"R": 3, "C": 37}, **PAIR),
    "of signs": problem(
        "(F.hinge_embedding_loss(x, s), F.hinge_embedding_loss(x, y), F.margin_ranking_loss(x, y, s, margin=0.1))",
        ROWS, {"R": 3, "C": 37}, **PAIR, s="torch.randn(R, C).sign()"),
    "of rows": problem(
        "(F.triplet_margin_loss(x, y, z, swap=True), F.cosine_similarity(x, y), F.cosine_embedding_loss(x, y, s),"
        " F.pairwise_distance(x, z, p=1))",
        ROWS, {"R": 5, "C": 37}, **PAIR, z="torch.randn(R, C)", s="torch.randn(R).sign()"),
    "of classes": problem(
        "(F.cross_entropy(x, t), F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=3),"
        " F.cross_entropy(x, t, weight=w), F.nll_loss(F.log_softmax(x, 1), t, reduction='none'))",
        {"R": 6, "C": 40}, {"R": 5, "C": 7}, **DRAW, t="torch.randint(0, C, (R,))", w="torch.rand(C)"),
    "of classes at many places": problem(
        "F.cross_entropy(x, t)", CUBE, {"R": 3, "C": 5, "D": 7}, x="torch.randn(R, C, D)",
        t="torch.randint(0, C, (R, D))"),
}  # fmt: skip
NORMS = {
    "batch norm in training": problem(
        "self.norm(x)", CUBE, {"R": 3, "C": 5, "D": 7}, "self.norm = nn.BatchNorm1d(C)", x="torch.randn(R, C, D) + 4"),
    "batch norm with its running statistics": problem(
        "self.norm(x)", ROWS, {"R": 3, "C": 37}, "self.norm = nn.BatchNorm1d(C); self.norm.eval()", **DRAW),
    "instance norm": problem(
        "self.norm(x)", CUBE, {"R": 3, "C": 5, "D": 7}, "self.norm = nn.InstanceNorm1d(C, affine=True)",
        x="torch.randn(R, C, D) + 4"),
    "group norm whose groups follow the sizes": problem(
        "F.leaky_relu(self.norm(x @ y))", {"R": 6, "C": 64, "G": 16}, {"R": 5, "C": 21, "G": 7},
        "self.norm = nn.GroupNorm(G, C)", x="torch.randn(R, 8)", y="torch.randn(8, C)"),
    "in place": problem(
        "self.act(x @ y).add_(1.0)", {"R": 40, "C": 24}, {"R": 9, "C": 13}, "self.act = nn.ReLU(inplace=True)",
        **DRAW, y="torch.randn(C, R)"),
    "mean over several blocks": problem(
        "torch.mean((x - y) ** 2)", {"R": 300, "C": 256}, {"R": 7, "C": 19}, **PAIR),
}  # fmt: skip
FAR = "(torch.randn(R, C, D) + 4).reshape(-1).index_fill(0, torch.arange({0}), 1e4).reshape(R, C, D)"
"""Rows of which the first elements lie far from all others."""
MANY = {
    "batch norm of many elements": problem(
        "F.batch_norm(x, None, None, w, w, training=True)", {"R": 40, "C": 2, "D": 1700}, {"R": 3, "C": 5, "D": 7},
        x="torch.randn(R, C, D) + 400", w="torch.randn(C)"),
    "batch norm, an element of which lies far away": problem(
        "F.batch_norm(x, None, None, training=True)", {"R": 90, "C": 1, "D": 800}, {"R": 5, "C": 1, "D": 8},
        x=FAR.format(1)),
    "layer norm whose weight is too much for a cache": problem(
        "F.layer_norm(x, (C, D), w, b)", {"R": 2, "C": 600, "D": 1000}, {"R": 3, "C": 5, "D": 7},
        x="torch.randn(R, C, D)", w="torch.randn(C, D)", b="torch.randn(C, D)"),
    "group norm of many elements, all equal but for a few": problem(
        "F.group_norm(x, 2, w, w)", {"R": 1, "C": 8, "D": 17000}, {"R": 3, "C": 4, "D": 6},
        x=FAR.format("D // 2").replace("torch.randn", "torch.zeros"), w="torch.randn(C)"),
}  # fmt: skip
"""Their mean and variance are made of one pass."""
LONG = {
    "softmax of rows too long for registers": problem(
        "torch.softmax(x + w, 1)", {"R": 2, "C": 16640}, {"R": 3, "C": 16388},
        x="torch.randn(R, C)", w="torch.randn(C)"),
    "long halves and their largest": problem(
        "(x.float() * x.float().sum(1, keepdim=True), x.amax(1))", {"R": 2, "C": 33024}, {"R": 1, "C": 33030},
        x="torch.randn(R, C).half()"),
    "sizes that are equal in one workload only": problem(
        "F.gelu((x @ w).mean(1, keepdim=True)) + x", {"R": 4, "C": 64, "D": 64}, {"R": 3, "C": 37, "D": 21},
        x="torch.randn(R, C)", w="torch.randn(C, D)"),
    "columns normalised before rows": problem(
        "torch.softmax(F.batch_norm(x, None, None, training=True), 1)", {"R": 9, "C": 64}, {"R": 5, "C": 37}, **DRAW),
    "few long rows, each by several blocks": problem(
        "(torch.softmax(x, 1), torch.argmax(x, 1))", {"R": 2, "C": 131076}, {"R": 3, "C": 4099}, **DRAW),
    "few columns, each by several blocks": problem(
        "(x.abs().sum(0), x.amax(0) * 2)", {"R": 40000, "C": 8}, {"R": 4001, "C": 7}, **DRAW),
}  # fmt: skip
QKV = {"q": "torch.randn(B, M, K)", "k": "torch.randn(B, N, K)", "v": "torch.randn(B, N, K)"}
ATTENTION = {
    "attention": problem(
        "F.scaled_dot_product_attention(q, k, v)", HEADS, {"B": 1, "M": 9, "N": 21, "K": 5}, **QKV),
    "attention of doubles": problem(
        "F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)", HEADS,
        {"B": 1, "M": 9, "N": 21, "K": 5}, **QKV),
    "causal, bfloat16": problem(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)", HEADS, {"B": 1, "M": 37, "N": 21, "K": 5},
        **{name: f"{drawn}.bfloat16()" for name, drawn in QKV.items()}),
    "masked, its own scale": problem(
        "F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)", HEADS, {"B": 1, "M": 9, "N": 21, "K": 5},
        **QKV, mask="torch.rand(M, N) > 0.2"),
    "more columns than a block holds": problem(
        "F.scaled_dot_product_attention(q, k, v)", {"B": 1, "M": 5, "N": 7, "K": 1024},
        {"B": 1, "M": 3, "N": 5, "K": 1090}, **QKV),
    "scores far apart": problem(
        "F.scaled_dot_product_attention(q * 60, k, v)", HEADS, {"B": 1, "M": 9, "N": 41, "K": 5}, **QKV),
    "halves": problem(
        "F.scaled_dot_product_attention(q, k, v)", {"B": 2, "M": 40, "N": 72, "K": 72},
        {"B": 1, "M": 9, "N": 21, "K": 5}, **{name: f"{drawn}.half()" for name, drawn in QKV.items()}),
    "causal halves, several tiles": problem(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)", {"B": 2, "M": 200, "N": 150, "K": 128},
        {"B": 1, "M": 37, "N": 21, "K": 5}, **{name: f"{drawn}.half()" for name, drawn in QKV.items()}),
    "halves of two warps a row, a scale below zero": problem(
        "F.scaled_dot_product_attention(q, k, v, scale=-0.1)", {"B": 1, "M": 70, "N": 130, "K": 640},
        {"B": 1, "M": 9, "N": 21, "K": 300}, **{name: f"{drawn}.half()" for name, drawn in QKV.items()}),
    "written out, with a scale that follows the sizes": problem(
        "torch.softmax(q @ k.transpose(-1, -2) * K ** -0.5, -1) @ v", {"B": 2, "M": 16, "N": 24, "K": 8},
        {"B": 1, "M": 9, "N": 21, "K": 5}, **QKV),
}  # fmt: skip
GROUPED_HEADS = {"q": "torch.randn(B, G * H, M, K)", "k": "torch.randn(B, G, N, K)", "v": "torch.randn(B, G, N, K)"}
GROUPS = {"B": 2, "G": 2, "H": 3, "M": 9, "N": 12, "K": 8}, {"B": 1, "G": 3, "H": 2, "M": 5, "N": 7, "K": 5}
IN_GROUPS = {
    "asked for": problem(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)", *GROUPS, **GROUPED_HEADS),
    "keys repeated": problem(
        "F.scaled_dot_product_attention(q, k.repeat_interleave(H, 1), v.repeat_interleave(H, 1))", *GROUPS,
        **GROUPED_HEADS),
    "keys expanded": problem(
        "F.scaled_dot_product_attention(q, *(x[:, :, None].expand(B, G, H, N, K).reshape(q.shape) for x in (k, v)))",
        {**GROUPS[0], "N": 9}, {**GROUPS[1], "N": 5}, **GROUPED_HEADS),
    "heads and batches put together": problem(
        "F.scaled_dot_product_attention(*(x.view(M, B * H, K).transpose(0, 1) for x in (q, k, v))).transpose(0, 1)",
        {"B": 2, "H": 3, "M": 9, "K": 8}, {"B": 1, "M": 5}, **{name: "torch.randn(M, B, H * K)" for name in "qkv"}),
}  # fmt: skip
"""Queries that share keys and values, and heads in other places of memory."""
MASKED_GROUPS = problem(
    "F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)", *GROUPS, **GROUPED_HEADS,
    mask="torch.rand(B, G * H, M, N) > 0.2",
)  # fmt: skip
HALVES = {
    name: f"torch.randn(B, H, {rows}, K).half()" for name, rows in {"q": "M", "k": "N", "v": "N"}.items()
}  # fmt: skip
BY_WARP_GROUPS: dict[str, tuple[Problem, dict[str, int]]] = {
    "two groups, then no whole vectors": (problem(
        "F.scaled_dot_product_attention(q, k, v)", {"B": 1, "H": 2, "M": 130, "N": 150, "K": 64},
        {"B": 1, "H": 1, "M": 9, "N": 21, "K": 5}, **HALVES), {"GROUPS": 2, "BN": 64}),
    "causal, fewer queries than keys": (problem(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)", {"B": 1, "H": 2, "M": 200, "N": 200, "K": 128},
        {"B": 1, "H": 3, "M": 70, "N": 330, "K": 72}, **HALVES), {}),
    "causal, more queries than keys, no turns": (problem(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)", {"B": 2, "H": 2, "M": 200, "N": 70, "K": 128},
        {"B": 3, "H": 1, "M": 330, "N": 200, "K": 128}, **HALVES), {"TURNS": 0, "BN": 64, "STAGES": 3}),
    "three groups, several tiles": (problem(
        "F.scaled_dot_product_attention(q, k, v)", {"B": 1, "H": 2, "M": 230, "N": 450, "K": 64},
        {"B": 1, "H": 1, "M": 70, "N": 530, "K": 40}, **HALVES), {}),
    "a scale below zero, long tiles": (problem(
        "F.scaled_dot_product_attention(q, k, v, scale=-0.1)", {"B": 1, "H": 1, "M": 70, "N": 530, "K": 128},
        {"B": 1, "H": 1, "M": 9, "N": 21, "K": 96},
        **{n: drawn.replace("half", "bfloat16") for n, drawn in HALVES.items()}), {"BN": 176}),
}  # fmt: skip
"""With the parameters that are not their defaults."""
TRANSFORMED = {
    "vmap over pairs": problem(
        "torch.vmap(lambda a: torch.vmap(lambda b: (a - b).abs().sum())(y))(x)", {"R": 4, "S": 5, "C": 64},
        {"R": 3, "S": 2, "C": 37}, x="torch.randn(R, C)", y="torch.randn(S, C)"),
    "gradient of layer norm": problem(
        "torch.func.grad(lambda z: (F.layer_norm(z, (C,)) * y).sum())(x)", ROWS, {"R": 3, "C": 37}, **PAIR),
    "gradient of a loss": problem(
        "torch.func.grad(lambda z: F.cross_entropy(z, t))(x)", ROWS, {"R": 3, "C": 37}, **DRAW,
        t="torch.randint(0, C, (R,))"),
    "gradient by a backward pass": problem(
        "-torch.autograd.grad((x.softmax(-1) * x).sum(), x)[0]", ROWS, {"R": 3, "C": 37},
        lines=["torch.set_grad_enabled(True)", "x = x.requires_grad_()"], **DRAW),
    "a function by its gradient": problem(
        "(lambda value, pull: value + pull(y)[0])(*torch.func.vjp(lambda z: F.softplus(z) * z, x))", ROWS,
        {"R": 3, "C": 37}, **PAIR),
}  # fmt: skip
CASES = {
    **SCANS,
    **PLACES,
    **LOSSES,
    **NORMS,
    **LONG,
    **ATTENTION,
    **IN_GROUPS,
    **TRANSFORMED,
    "masked groups": MASKED_GROUPS,
}
ALWAYS = ("reversed", "position of the largest, with equals and NaN", "batch norm in training")
"""One of each kind; the others are thorough."""
ONE_LEVEL: dict[tuple[str, str], dict[str, int]] = {
    ("group norm whose groups follow the sizes", "naive"): {},
    ("attention", "online"): {},
    ("gradient of layer norm", "naive"): {},
    ("halves", "tensor cores"): {"BM": 64, "BN": 64, "STAGES": 2},
}
"""What is dear to compile: one kernel of it, with small tiles; the others are thorough. The kernel of tensor cores is
part of that of warp groups, for sizes that are no whole vectors, too."""


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough) for name in CASES]
)
def test_every_variant_is_right_at_both_workloads(case: str, shared: SharedTools, tmp_path: Path) -> None:
    one = CASES[case]
    assert_right(one, variants_of(one, shared, tmp_path), one.workloads, shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    ("case", "level"),
    [pytest.param(*one, marks=pytest.mark.thorough if one[1] == "tensor cores" else ()) for one in ONE_LEVEL],
)
def test_one_variant_is_right_at_both_workloads(case: str, level: str, shared: SharedTools, tmp_path: Path) -> None:
    assert_level_right(CASES[case], level, ONE_LEVEL[case, level], shared, tmp_path)


@pytest.mark.parametrize("case", IN_GROUPS)
def test_nothing_of_attention_in_groups_is_copied(case: str, shared: SharedTools, tmp_path: Path) -> None:
    online = next(v for v in variants_of(IN_GROUPS[case], shared, tmp_path) if v.name == "online")
    assert len(kernel_file.parse(online.source).launches) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("case", BY_WARP_GROUPS)
def test_warp_groups_attend_as_the_reference_does(case: str, shared: SharedTools, tmp_path: Path) -> None:
    one, params = BY_WARP_GROUPS[case]
    last = variants_of(one, shared, tmp_path, Target(DEVICE))[-1]
    assert last.name == "warp groups"
    assert_right(one, [last], one.workloads, shared, tmp_path, params=params, compiled=case.startswith("causal"))


# Rows that are no whole, aligned vectors: these begin elsewhere in each row.
ODD = {
    "softmax, and rows shorter than a vector": problem(
        "torch.softmax(x, 1)", {"R": 9, "C": 1023}, {"R": 5, "C": 3}, x="torch.rand(R, C).log()"),
    "rows of just as many vectors as threads keep, of halves": problem(
        "torch.softmax(x, 1)", {"R": 4, "C": 2048}, {"R": 3, "C": 2048}, x="torch.randn(R, C).half()"),
    "layer norm of halves, most of whose vectors are sure, whose weight and bias begin elsewhere": problem(
        "F.layer_norm(x, (C,), w[3:], b[1:])", {"R": 8, "C": 1021}, {"R": 4, "C": 29}, x="torch.randn(R, C).bfloat16()",
        w="torch.randn(C + 3).bfloat16()", b="torch.randn(C + 1).bfloat16()"),
    "a weight of halves and one of bytes for floats": problem(
        "x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * w * v", {"R": 4, "C": 511}, {"R": 8, "C": 23},
        x="torch.randn(R, C)", w="torch.randn(C).half()", v="torch.randint(1, 5, (C,)).to(torch.int8)"),
    "layer norm of halves, whose weight begins elsewhere": problem(
        "F.layer_norm(x, (C,), w, w)", {"R": 9, "C": 1029}, {"R": 5, "C": 11},
        x="torch.randn(R, C).half()", w="torch.randn(C).half()"),
    "positions, and rows that begin elsewhere than their results": problem(
        "(torch.argmax(x[:, 1:], 1), x[:, 1:] - y.float().amax(1, keepdim=True))", {"R": 9, "C": 518},
        {"R": 5, "C": 2}, **DRAW, y="torch.randint(-128, 127, (R, C)).to(torch.int8)"),
    "rows too long for registers": problem(
        "(x * x.abs().sum(1, keepdim=True), torch.argmin(x, 1))", {"R": 2, "C": 16643}, {"R": 3, "C": 2}, **DRAW),
    "groups with a weight for each channel": problem(
        "F.group_norm(x, 2, w, w)", {"R": 2, "C": 6, "D": 301}, {"R": 3, "C": 2, "D": 5},
        x="torch.randn(R, C, D)", w="torch.randn(C)"),
    "a scan whose rows begin elsewhere than its results": problem(
        "torch.cumsum(x[:, 1:], 1) + y", {"R": 9, "C": 5000}, {"R": 5, "C": 2}, **DRAW, y="torch.randn(R, C - 1)"),
    "strips with a bias, of halves and of truths": problem(
        "(F.silu(x + b), x > b)", {"R": 9, "C": 517}, {"R": 3, "C": 2}, x="torch.randn(R, C).half()",
        b="torch.randn(C).half()"),
    "strips with what is the same all along them": problem(
        "x * torch.exp(s)", {"R": 9, "C": 517}, {"R": 5, "C": 1}, x="torch.randn(R, C)", s="torch.randn(R, 1)"),
    "reductions of what is alike along a row, or along a part of it": problem(
        "(x * torch.ones(R, C)[..., None]).sum(1) / torch.ones(R, C).sum(1, keepdim=True)"
        " + (torch.zeros(R, C).softmax(1)[..., None] * x).sum(1) + torch.full_like(x, 0.5).mean((1, 2))[:, None]"
        " + x[:, None].expand(-1, 3, -1, -1).sum((1, 2)) + (x[:, :1] * 2).expand(-1, C, -1).amax(1)",
        {"R": 6, "C": 67, "D": 12}, {"R": 3, "C": 5, "D": 7}, x="torch.randn(R, C, D)"),
    "few long rows": problem("(x.float().sum(1), x.float().amax(1))", {"R": 2, "C": 131075}, {"R": 3, "C": 4097},
        x="torch.randn(R, C).bfloat16()"),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if k == 2 else pytest.mark.thorough) for k, name in enumerate(ODD)]
)
def test_rows_that_are_no_whole_vectors_are_right(case: str, shared: SharedTools, tmp_path: Path) -> None:
    last = variants_of(ODD[case], shared, tmp_path, Target(DEVICE))[-1]
    assert_right(ODD[case], [last], ODD[case].workloads, shared, tmp_path)


SPARING = {
    "a weight of odd rows is read by vectors": (True, "copy_shifted(", problem(
        "F.rms_norm(x, (C,), w)", {"R": 64, "C": 1021}, {"R": 4, "C": 29}, **DRAW, w="torch.randn(C)")),
    "the target's class is found before the third walk": (False, "ROWS, 16>(", problem(
        "F.cross_entropy(x, t)", {"R": 64, "C": 1024}, {"R": 5, "C": 7}, **DRAW, t="torch.randint(0, C, (R,))")),
    "strips that share much go together": (True, "% down * ROWS", problem(
        "F.layer_norm(x, (C, D), w)", {"R": 4, "C": 1200, "D": 1000}, {"R": 3, "C": 5, "D": 7},
        x="torch.randn(R, C, D)", w="torch.randn(C, D)")),
    "strips that share little go one after the other": (False, "% down * ROWS", problem(
        "F.layer_norm(x, (C, D), w)", {"R": 4, "C": 120, "D": 1000}, {"R": 3, "C": 5, "D": 7},
        x="torch.randn(R, C, D)", w="torch.randn(C, D)")),
}  # fmt: skip


@pytest.mark.parametrize("case", SPARING)
def test_the_last_kernel_reads_no_more_than_it_must(case: str, shared: SharedTools, tmp_path: Path) -> None:
    wanted, text, one = SPARING[case]
    assert (text in variants_of(one, shared, tmp_path, Target(DEVICE))[-1].source) is wanted


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if k == 0 else pytest.mark.thorough) for k, name in enumerate(MANY)]
)
def test_norms_of_many_elements_are_right(case: str, shared: SharedTools, tmp_path: Path) -> None:
    last = variants_of(MANY[case], shared, tmp_path, Target(DEVICE))[-1]
    assert_right(MANY[case], [last], MANY[case].workloads, shared, tmp_path)


# Reductions over a slow dimension, with many results next to each other: 65536 from which vectors of them pay.
AMONG_COLUMNS = {
    "softmax, then results that are no whole vectors": problem(
        "torch.softmax(x, 1) + w", {"R": 2, "C": 3, "D": 32800}, {"R": 3, "C": 70, "D": 37}, x="torch.randn(R, C, D)",
        w="torch.randn(C, 1)"),
    "no whole vectors, and no equal parts, with a scale of each row and one of each element of it": problem(
        "torch.softmax(x * u, 1) * s + w", {"R": 2, "C": 17, "D": 32801}, {"R": 3, "C": 18, "D": 37},
        x="torch.randn(R, C, D)", u="torch.rand(R, C, 1)", s="torch.randn(R, 1, 1)", w="torch.randn(C, 1)"),
    "the largest of what has a weight of each channel and a scale of each row": problem(
        "torch.amax(torch.relu(x * w) * s, 1)", {"R": 2, "C": 16, "D": 32801}, {"R": 3, "C": 18, "D": 37},
        x="torch.randn(R, C, D)", w="torch.randn(C, 1)", s="torch.randn(R, C, 1)"),
    "a norm of halves, with a weight of each channel": problem(
        "x * torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-5).half() * w", {"R": 1, "C": 20, "D": 65552},
        {"R": 2, "C": 130, "D": 24}, x="torch.randn(R, C, D).half()", w="torch.randn(C, 1).half()"),
    "the first of the largest, with NaN": problem(
        "torch.max(x, 1)", {"R": 2, "C": 9, "D": 32768}, {"R": 3, "C": 67, "D": 5},
        x="torch.where(torch.rand(R, C, D) > 0.97, torch.nan, torch.randn(R, C, D).round())"),
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=() if k == 2 else pytest.mark.thorough) for k, name in enumerate(AMONG_COLUMNS)],
)
def test_vectors_of_results_are_right(case: str, shared: SharedTools, tmp_path: Path) -> None:
    last = variants_of(AMONG_COLUMNS[case], shared, tmp_path, Target(DEVICE))[-1]
    assert "columns_reduce" in last.source
    assert_right(AMONG_COLUMNS[case], [last], AMONG_COLUMNS[case].workloads, shared, tmp_path)


# Rows of more than 100 KB, and short ones, of which some blocks of a cluster have no part. Parts in registers, in
# shared memory and read again; parts in shared memory alone; parts in registers alone.
CLUSTERED = {
    "softmax, one row of which has nothing but -inf": ({"CLUSTER": 4, "KEEP": 12800}, problem(
        "torch.softmax(x, 1)", {"R": 2, "C": 26624}, {"R": 2, "C": 102407},
        x="torch.where(torch.arange(R)[:, None] == 1, torch.tensor(-torch.inf), torch.randn(R, C))")),
    "log-softmax of halves": ({"CLUSTER": 2, "HELD": 0}, problem(
        "torch.log_softmax(x, 1)", {"R": 2, "C": 53248}, {"R": 2, "C": 61}, x="torch.randn(R, C).half()")),
    "layer norm of bfloat16": ({"CLUSTER": 2}, problem(
        "F.layer_norm(x, (C,), w, w)", {"R": 2, "C": 53248}, {"R": 2, "C": 26622},
        x="torch.randn(R, C).bfloat16()", w="torch.randn(C).bfloat16()")),
    "root mean square, and the largest": ({"CLUSTER": 16, "HELD": 8}, problem(
        "(x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5), x.abs().amax(1))",
        {"R": 2, "C": 26624}, {"R": 3, "C": 13}, **DRAW)),
    "softmax of rows that are no whole vectors": ({"CLUSTER": 2, "HELD": 0, "THREADS": 256}, problem(
        "torch.softmax(x, 1)", {"R": 3, "C": 27001}, {"R": 3, "C": 8197}, **DRAW)),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if k == 4 else pytest.mark.thorough) for k, name in enumerate(CLUSTERED)]
)
def test_a_cluster_keeps_a_long_row(case: str, shared: SharedTools, tmp_path: Path) -> None:
    params, one = CLUSTERED[case]
    last = variants_of(one, shared, tmp_path, Target(DEVICE))[-1]
    workloads = one.workloads[1:] if case.startswith("softmax") else one.workloads
    params = {"TEAM": 1, **params}
    assert_right(one, [last], workloads, shared, tmp_path, params=params, compiled=case.startswith("root"))


HOLES = "softmax, whole vectors or not, with rows that begin with -inf or have nothing else"
# A team has several rows, one after the other, of which its blocks have unequal shares; chunks of 256 vectors.
SHARED = {
    HOLES: (
        {"TEAM": 3, "RING": 2560}, problem(
            "torch.softmax(x, 1)", {"R": 5, "C": 26632}, {"R": 5, "C": 4103},
            x="torch.where(torch.arange(C) < torch.tensor([0, C, C // 2, C - 1, 1])[:, None], -torch.inf,"
              " torch.randn(R, C))")),
    "log-softmax of halves, a team for each row": ({"TEAM": 5, "RING": 1536, "TEAMS": 9}, problem(
        "torch.log_softmax(x, 1)", {"R": 2, "C": 53248}, {"R": 3, "C": 61}, x="torch.randn(R, C).half()")),
    "layer norm of bfloat16, whose shares fill the ring": ({"TEAM": 2, "RING": 3328}, problem(
        "F.layer_norm(x, (C,), w, w)", {"R": 3, "C": 53248}, {"R": 7, "C": 26622},
        x="torch.randn(R, C).bfloat16()", w="torch.randn(C).bfloat16()")),
    "layer norm of what lies far from zero, and one of it farther": ({"TEAM": 5, "RING": 1536}, problem(
        "F.layer_norm(x, (C,), w, w)", {"R": 5, "C": 26627}, {"R": 9, "C": 13},
        x="torch.where(torch.arange(C) == C // 2, 3e4, torch.randn(R, C) + 400)", w="torch.randn(C)")),
    "root mean square of pairs, and the largest": ({"TEAM": 7, "RING": 1024, "TEAM_EACH": 4}, problem(
        "((x + y) * torch.rsqrt((x * y).square().mean(1, keepdim=True) + 1e-5), x.abs().amax(1))",
        {"R": 3, "C": 26624}, {"R": 9, "C": 13}, x="torch.randn(R, C)", y="torch.randn(R, C).half()")),
    "softmax, a row of which is reduced before the last one is written": (
        {"TEAM": 3, "RING": 4864, "TEAM_AHEAD": 1}, problem(
            "torch.softmax(x, 1)", {"R": 9, "C": 26632}, {"R": 5, "C": 4103}, **DRAW)),
    "softmax with a mask": ({"TEAM": 3, "RING": 2560}, problem(
        "torch.softmax(x.masked_fill(m, -torch.inf), 1)", {"R": 5, "C": 27000}, {"R": 7, "C": 2},
        x="torch.randn(R, C)", m="(torch.rand(R, C) > 0.5) & (torch.arange(C) > 0)")),
    "groups with a weight for each channel": ({"TEAM": 4, "RING": 4608, "TEAMS": 1}, problem(
        "F.group_norm(x, 2, w, w)", {"R": 1, "C": 8, "D": 16900}, {"R": 3, "C": 4, "D": 6},
        x="torch.randn(R, C, D) + 400", w="torch.randn(C)")),
    "groups with a weight for each channel, reduced ahead": (
        {"TEAM": 4, "RING": 9216, "TEAMS": 1, "TEAM_AHEAD": 1}, problem(
            "F.group_norm(x, 2, w, w)", {"R": 2, "C": 8, "D": 16900}, {"R": 3, "C": 4, "D": 6},
            x="torch.randn(R, C, D) + 400", w="torch.randn(C)")),
    "squares away from half of a mean": ({"TEAM": 2, "RING": 6656}, problem(
        "x + (x - x.sum(1, keepdim=True) / n).square().sum(1, keepdim=True) / n", {"R": 3, "C": 26500},
        {"R": 4, "C": 61}, x="torch.randn(R, C) + 9", n="2 * C")),
    "layer norm, reduced ahead, one row a team and several": ({"TEAM": 3, "RING": 6144, "TEAM_AHEAD": 1}, problem(
        "F.layer_norm(x, (C,), w, b)", {"R": 2, "C": 26632}, {"R": 7, "C": 4103}, x="torch.randn(R, C) + 400",
        w="torch.randn(C)", b="torch.randn(C)")),
    "the logarithm of a sum of exponentials, doubles, of many rows": ({"TEAM": 2, "RING": 6656}, problem(
        "torch.logsumexp(x, 1)", {"R": 600, "C": 13314}, {"R": 4, "C": 61}, x="torch.randn(R, C).double()")),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if k == 0 else pytest.mark.thorough) for k, name in enumerate(SHARED)]
)
def test_a_team_keeps_one_row_after_the_other(case: str, shared: SharedTools, tmp_path: Path) -> None:
    params, one = SHARED[case]
    last = variants_of(one, shared, tmp_path, Target(KNOWN["sm_80"]))[-1]
    file = kernel_file.parse(last.source)
    suffix = "2" if "TEAM2" in file.defaults() else ""
    params = {
        f"{name}{suffix}": value
        for name, value in {"TEAM_THREADS": 256, "TEAM_EACH": 1, "TEAM_AHEAD": 0, **params}.items()
    }
    workloads = one.workloads[1:] if case.endswith("many rows") else one.workloads
    for workload in workloads:
        signature = shared.reference(one, tmp_path).signature(workload)
        assert file.plan(signature, DEVICE, {**file.defaults(), **params}).launches[-1].cooperative, workload.name
    assert_right(one, [last], workloads, shared, tmp_path, params=params, compiled=suffix == "2")


# A cluster has several rows of the benchmark's length, which small ones share as well; weights stay in registers.
LONG = {"R": 64, "C": 262144}
PERSISTENT = {
    "layer norm, whose last block has less": ({"PERSIST_BLOCKS": 4}, problem(
        "F.layer_norm(x, (C,), w, b)", LONG, {"R": 9, "C": 4104}, x="torch.randn(R, C) + 400", w="torch.randn(C)",
        b="torch.randn(C)")),
    "softmax by one block, with rows of -inf": ({"PERSIST_CLUSTERS": 3, "PERSIST_BLOCKS": 1}, problem(
        "torch.softmax(x, 1) * w", LONG, {"R": 5, "C": 8216}, w="torch.randn(C)",
        x="torch.where(torch.arange(C) < torch.tensor([0, C, C // 2, C - 1, 1]).repeat(R)[:R, None], -torch.inf,"
          " torch.randn(R, C))")),
    "softmax of halves, which read nothing else": ({}, problem(
        "torch.softmax(x, 1)", {"R": 64, "C": 393216}, {"R": 9, "C": 8208}, x="torch.randn(R, C).half() * 5")),
    "root mean square of halves by one block, and the largest": ({"PERSIST_BLOCKS": 1}, problem(
        "(F.rms_norm(x, (C,), w), x.abs().amax(1))", {"R": 64, "C": 524288}, {"R": 7, "C": 16448},
        x="torch.randn(R, C).bfloat16()", w="torch.randn(C).bfloat16()")),
    "what is added before, of which some blocks have nothing": ({"PERSIST_BLOCKS": 16, "PERSIST_CLUSTERS": 1}, problem(
        "F.layer_norm(x + y, (C,), w, b) * s", {"R": 64, "C": 131072}, {"R": 5, "C": 260},
        x="torch.randn(R, C)", y="torch.randn(R, C)",
        w="torch.randn(C)", b="torch.randn(C)", s="torch.randn(R, 1)")),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if k == 0 else pytest.mark.thorough) for k, name in enumerate(PERSISTENT)]
)
def test_a_persistent_cluster_keeps_one_row_after_the_other(case: str, shared: SharedTools, tmp_path: Path) -> None:
    params, one = PERSISTENT[case]
    last = variants_of(one, shared, tmp_path, Target(DEVICE))[-1]
    file = kernel_file.parse(last.source)
    params = {"PERSIST_ROWS": 3, "PERSIST_CLUSTERS": 2, **params}
    (small,) = one.workloads[1:]
    signature = shared.reference(one, tmp_path).signature(small)
    launch = file.plan(signature, DEVICE, {**file.defaults(), **params}).launches[-1]
    assert launch.kernel.split("<")[0].endswith("_persistent")
    assert_right(one, [last], [small], shared, tmp_path, params=params, compiled=case.startswith("layer"))


@pytest.mark.parametrize(
    ("forward", "columns", "blocks"),
    [
        ("F.layer_norm(x, (C,), w, b)", 262144, 16), ("F.layer_norm(x, (C,), w, b)", 65536, 8),
        ("F.layer_norm(x, (C,), w, b)", 50000, 4), ("F.layer_norm(x, (C,), w, b)", 25000, 2),
        ("F.rms_norm(x, (C,), w)", 32768, 4), ("F.rms_norm(x, (C,), w) + b[0]", 25000, 0),
        ("F.layer_norm(x, (C,), w, b)", 50001, 0), ("torch.softmax(x, 1) * w[0] + b[0]", 65536, 0),
    ],
)  # fmt: skip
def test_clusters_that_stay_have_as_many_blocks_as_have_enough_to_read(
    forward: str, columns: int, blocks: int, shared: SharedTools, tmp_path: Path
) -> None:
    """Rows that one block can keep beside another one's stay there, unless what all rows read is more than a row."""
    draw = {"x": "torch.randn(R, C)", "w": "torch.randn(C)", "b": "torch.randn(C)"}
    one = problem(forward, {"R": 4096, "C": columns}, {"R": 3, "C": 8}, **draw)
    last = variants_of(one, shared, tmp_path, Target(DEVICE))[-1]
    assert kernel_file.parse(last.source).defaults().get("PERSIST_BLOCKS", 0) == blocks


# The same where warps have roles: rings of few chunks of 256 vectors, so that they are gone through several times.
PIPELINED = {
    HOLES: ({"TEAM": 3, "RING": 3328}, SHARED[HOLES][1]),
    "log-softmax, a team for each row": ({"TEAM": 5, "RING": 2048, "TEAMS": 9}, problem(
        "torch.log_softmax(x, 1)", {"R": 2, "C": 26624}, {"R": 3, "C": 61}, **DRAW)),
    "layer norm, one row a team and several, with weights of bfloat16": ({"TEAM": 2, "RING": 3840}, problem(
        "F.layer_norm(x, (C,), w.float(), w.float())", {"R": 3, "C": 26624}, {"R": 7, "C": 13311},
        x="torch.randn(R, C)", w="torch.randn(C).bfloat16()")),
    "layer norm of what lies far from zero, and one of it farther": ({"TEAM": 5, "RING": 2048}, problem(
        "F.layer_norm(x, (C,), w, b)", {"R": 5, "C": 26627}, {"R": 9, "C": 13},
        x="torch.where(torch.arange(C) == C // 2, 3e4, torch.randn(R, C) + 400)", w="torch.randn(C)",
        b="torch.randn(C)")),
    "many short rows, of which a ring holds many": ({"TEAM": 4, "RING": 7680}, problem(
        "F.layer_norm(x, (C,))", {"R": 2, "C": 26624}, {"R": 150, "C": 256}, x="torch.randn(R, C)")),
    "root mean square of pairs, and the largest": ({"TEAM": 3, "RING": 2560}, problem(
        "((x + y) * torch.rsqrt((x * y).square().mean(1, keepdim=True) + 1e-5), x.mean(1))",
        {"R": 3, "C": 26624}, {"R": 9, "C": 13}, x="torch.randn(R, C)", y="torch.randn(R, C)")),
    "groups with a weight for each channel": ({"TEAM": 4, "RING": 4608, "TEAMS": 1}, problem(
        "F.group_norm(x, 2, w, w)", {"R": 2, "C": 8, "D": 16900}, {"R": 3, "C": 4, "D": 6},
        x="torch.randn(R, C, D) + 400", w="torch.randn(C)")),
    "rows of doubles, by their root mean square": ({"TEAM": 2, "RING": 4096}, problem(
        "x / x.norm(dim=1, keepdim=True)", {"R": 7, "C": 13314}, {"R": 4, "C": 61}, x="torch.randn(R, C).double()")),
}  # fmt: skip


LARGE = {"N": 128, "C": 32, "W": 256}
WRITTEN_BEFORE = {
    "a convolution": problem(
        "F.group_norm(F.conv2d(x, w, padding=1), 4)", LARGE, {**LARGE, "W": 64},
        x="torch.randn(N, C, W, W)", w="torch.randn(C, C, 3, 3)"),
    "a transposed convolution, in double": problem(
        "F.group_norm(F.conv_transpose2d(x, w), 2)", LARGE, {**LARGE, "W": 64},
        x="torch.randn(N, C, W, W).double()", w="torch.randn(C, C, 3, 3).double()"),
    "a product, then a chain": problem(
        "F.layer_norm(torch.relu(x @ w).flatten(1) * 2, (C * W * W,))", LARGE, {**LARGE, "W": 64},
        x="torch.randn(N, C, W, W)", w="torch.randn(W, W)"),
    "a scan": problem(
        "torch.softmax(torch.cumsum(x, 1).flatten(1), 1)", LARGE, {**LARGE, "W": 64}, x="torch.randn(N, C, W * W)"),
    "rows of its own": problem(
        "F.layer_norm(F.layer_norm(x, (C * W * W,)).cumsum(1) + x, (C * W * W,))", LARGE, {**LARGE, "W": 64},
        x="torch.randn(N, C * W * W)"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN_BEFORE)
def test_long_rows_that_another_kernel_writes_can_be_launched_on_a_device(
    case: str, shared: SharedTools, tmp_path: Path
) -> None:
    """No emulator runs them at the size at which a team of blocks keeps one."""
    one = WRITTEN_BEFORE[case]
    reference, own = shared.reference(one, tmp_path), one.workloads[0]
    for variant in variants_of(one, shared, tmp_path, Target(DEVICE)):
        kernel = kernel_file.parse(variant.source)
        plan = kernel.plan(reference.signature(own), DEVICE, kernel.defaults(), workload=own.name)
    assert "_pipelined" in variant.source
    assert plan.tensor_maps or "double" not in case


@pytest.mark.thorough
@pytest.mark.parametrize("case", PIPELINED)
def test_warps_with_roles_keep_one_row_after_the_other(case: str, shared: SharedTools, tmp_path: Path) -> None:
    params, one = PIPELINED[case]
    last = variants_of(one, shared, tmp_path, Target(DEVICE))[-1]
    assert "_pipelined" in last.source
    assert_right(
        one, [last], one.workloads, shared, tmp_path,
        params={"CHUNK": 256, "READERS": 128, "WRITERS": 256, **params}, compiled=case == HOLES,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("forward", "waits"),
    [("torch.softmax(x, 1)", 1), ("torch.log_softmax(x * 0.5, 1)", 1), ("F.layer_norm(x, (C,))", 1),
     ("x / x.norm(dim=1, keepdim=True)", 1), ("x * (x - x.mean(1, keepdim=True)).abs().amax(1, keepdim=True)", 2),
     ("x * torch.exp(x.amin(1, keepdim=True) - x).sum(1, keepdim=True)", 2)],
)  # fmt: skip
def test_a_team_waits_once_for_two_reductions_that_are_made_together(
    forward: str, waits: int, shared: SharedTools, tmp_path: Path
) -> None:
    case = problem(forward, {"R": 300, "C": 65536}, {"R": 3, "C": 37}, **DRAW)
    last = variants_of(case, shared, tmp_path, Target(DEVICE))[-1]
    assert f"walk{waits}" in last.source
    assert f"walk{waits + 1}" not in last.source


@pytest.mark.parametrize(
    ("rows", "columns", "arch", "chosen"),
    [(1024, 393216, "sm_90a", 33), (20, 65536, "sm_90a", 6), (64, 1 << 22, "sm_90a", 132),
     (300, 1 << 23, "sm_90a", None), (300, 20000, "sm_90a", None), (300, 65536, "sm_80", 8), (300, 65536, "sm_89", 16)],
)  # fmt: skip
def test_a_team_has_as_many_blocks_as_keep_a_row_and_of_few_rows_all_of_the_device(
    rows: int, columns: int, arch: str, chosen: int | None, shared: SharedTools, tmp_path: Path
) -> None:
    case = problem("torch.softmax(x, 1)", {"R": rows, "C": columns}, {"R": 3, "C": 37}, **DRAW)
    last = variants_of(case, shared, tmp_path, Target(KNOWN[arch]))[-1]
    file = kernel_file.parse(last.source)
    assert file.defaults().get("TEAM") == chosen
    if chosen:
        plan = file.plan(shared.reference(case, tmp_path).signature(case.workloads[0]), KNOWN[arch])
        assert plan.launches[0].cooperative
        assert plan.launches[0].grid[0] % chosen == 0


@pytest.mark.parametrize(("columns", "blocks", "ahead"), [(393216, 32, 1), (1 << 21, 264, 1), (1 << 22, 264, 0)])
def test_a_block_keeps_two_rows_where_all_of_the_device_can(
    columns: int, blocks: int, ahead: int, shared: SharedTools, tmp_path: Path
) -> None:
    forward = "x * (x - x.mean(1, keepdim=True)).abs().amax(1, keepdim=True)"  # two reductions, one after the other
    case = problem(forward, {"R": 300, "C": columns}, {"R": 3, "C": 37}, **DRAW)
    file = kernel_file.parse(variants_of(case, shared, tmp_path, Target(DEVICE))[-1].source)
    assert (file.defaults()["TEAM"], file.defaults()["TEAM_AHEAD"]) == (blocks, ahead)
    assert file.plan(shared.reference(case, tmp_path).signature(case.workloads[0]), DEVICE).launches[0].cooperative


@pytest.mark.parametrize(
    ("columns", "arch", "by_teams"),
    [(65536, "sm_90a", False), (360448, "sm_90a", False), (360464, "sm_90a", True), (65536, "sm_120a", False),
     (262144, "sm_120a", True), (65536, "sm_80", True)],
)  # fmt: skip
def test_clusters_have_the_rows_that_they_keep_and_the_tuner_may_try_the_other_kernel(
    columns: int, arch: str, by_teams: bool, shared: SharedTools, tmp_path: Path
) -> None:
    case = problem("torch.softmax(x, 1)", {"R": 300, "C": columns}, {"R": 3, "C": 37}, **DRAW)
    file = kernel_file.parse(variants_of(case, shared, tmp_path, Target(KNOWN[arch]))[-1].source)
    signature = shared.reference(case, tmp_path).signature(case.workloads[0])
    sizes = next(p.values for p in file.params if p.name == "TEAM")
    chosen = {team: file.plan(signature, KNOWN[arch], {**file.defaults(), "TEAM": team}) for team in sizes}
    assert file.plan(signature, KNOWN[arch]).launches[0].cooperative is by_teams
    assert {plan.launches[0].cooperative for plan in chosen.values()} == {False, True}
    tuned = {p.name for p in file.params if len(p.values) > 1}
    assert ("TEAM_THREADS" in tuned or "READERS" in tuned) is by_teams
    assert ("EACH" in tuned) is not by_teams


@pytest.mark.parametrize(
    ("columns", "arch", "chosen"),
    [(393216, "sm_90a", 8), (200000, "sm_90a", 8), (100000, "sm_90a", 4), (50000, "sm_90a", 2),
     (20000, "sm_90a", None), (393216, "sm_80", None), (393216, "sm_120a", 8)],
)  # fmt: skip
def test_a_row_longer_than_half_an_sm_keeps_is_shared_by_as_few_blocks_as_keep_it_at_most_8(
    columns: int, arch: str, chosen: int | None, shared: SharedTools, tmp_path: Path
) -> None:
    case = problem("torch.softmax(x, 1)", {"R": 300, "C": columns}, {"R": 3, "C": 37}, **DRAW)
    last = variants_of(case, shared, tmp_path, Target(KNOWN[arch]))[-1]
    assert kernel_file.parse(last.source).defaults().get("CLUSTER") == chosen


def test_a_reduction_over_everything_takes_several_blocks(shared: SharedTools, tmp_path: Path) -> None:
    case = NORMS["mean over several blocks"]
    signature = shared.reference(case, tmp_path).signature(case.workloads[0])
    for variant in variants_of(case, shared, tmp_path):
        first = kernel_file.parse(variant.source).plan(signature, DEVICE).launches[0]
        assert (first.grid[0] > 1) is (variant.name != "naive"), variant.name


def test_a_dimension_of_one_element_at_the_end_is_no_strip(shared: SharedTools, tmp_path: Path) -> None:
    case = problem("x[None, :, None] + y[:, None, None]", {"R": 512, "C": 1024}, {"R": 3, "C": 37},
                   x="torch.randn(C)", y="torch.randn(R)")  # fmt: skip
    signature = shared.reference(case, tmp_path).signature(case.workloads[0])
    last = variants_of(case, shared, tmp_path)[-1]
    (launch,) = kernel_file.parse(last.source).plan(signature, DEVICE).launches
    assert prod(launch.grid) * prod(launch.block) <= 512 * 1024 / 4, "a thread has vectors"


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("x * (C * 7 % 5)", "the number 3, which changes with the sizes"),
        (
            "x + 1 if C > 50 else torch.exp(x)",
            r"line \d+: .* change with the sizes .*\(aten.add at some, aten.exp at others\)",
        ),
        ("(lambda view: (x.mul_(2), view)[1])(x.view(-1))", "'aten.mul_' of what is read by another name"),
    ],
)
def test_what_would_be_wrong_at_another_size_is_not_in_the_playbook(
    forward: str, why: str, shared: SharedTools, tmp_path: Path
) -> None:
    with pytest.raises(NotInPlaybook, match=why):
        variants_of(problem(forward, ROWS, {"R": 3, "C": 37}, **DRAW), shared, tmp_path)


def covered(case: Problem, shared: SharedTools, folder: Path) -> tuple[tuple[str, ...], str]:
    reference, own = shared.reference(case, folder), case.workloads[0]
    found = cover(reference.graph(own), reference.signature(own))
    return found.families, found.missing


def test_coverage_names_the_families_or_every_operation_without_a_rule(shared: SharedTools, tmp_path: Path) -> None:
    product = problem("torch.softmax(x @ y, 1)", {"R": 32, "C": 32}, {"R": 3, "C": 3}, **PAIR)
    assert covered(product, shared, tmp_path) == (("product", "rows"), "")
    unknown = problem("torch.mode(x, 1)[0][:, None] + torch.digamma(y).relu()", ROWS, {"R": 3, "C": 37}, **PAIR)
    assert covered(unknown, shared, tmp_path) == ((), "no rule for aten.mode (line 9), aten.digamma (line 9)")
    drawn = problem("x + torch.rand_like(x)", ROWS, {"R": 3, "C": 37}, **DRAW)
    assert covered(drawn, shared, tmp_path) == ((), "no rule for aten.rand_like (line 9), which draws random numbers")


@pytest.mark.parametrize("case", TRANSFORMED)
def test_what_vmap_and_gradients_make_is_known(case: str, shared: SharedTools, tmp_path: Path) -> None:
    families, missing = covered(TRANSFORMED[case], shared, tmp_path)
    assert families
    assert not missing


def test_words_name_the_kernel_that_keeps_its_scores(shared: SharedTools, tmp_path: Path) -> None:
    variants = variants_of(ATTENTION["attention"], shared, tmp_path)
    assert [v.name for v in variants] == ["naive", "online", "3xTF32"]
    assert redirect("like flash attention", variants) == variants[1]


def test_a_file_offers_no_more_points_than_can_be_tried(shared: SharedTools, tmp_path: Path) -> None:
    for variant in variants_of(LOSSES["of rows"], shared, tmp_path):
        assert prod(len(p.values) for p in kernel_file.parse(variant.source).params) <= MOST_COMBINATIONS


@pytest.mark.by_default(3)
@pytest.mark.parametrize("result", ["F.normalize(x - y * w)", "torch.softmax(x + y, 1)", "F.layer_norm(x, (C,), w)"])
@pytest.mark.parametrize(("rows", "cols"), [(8, 16384), (1, 4096), (300, 20000), (5000, 1001), (16, 300000)])
def test_what_is_launched_is_there_for_few_rows_and_many(
    result: str, rows: int, cols: int, shared: SharedTools, tmp_path: Path
) -> None:
    """Rows may be short in the benchmark, and few enough for teams where they are longer: that is two kernels."""
    inputs = {"x": "torch.randn(R, C)", "y": "torch.randn(R, C)", "w": "torch.randn(C)"}
    made = problem(result, {"R": rows, "C": cols}, {"R": 3, "C": 50}, **inputs)
    signature = shared.reference(made, tmp_path).signature(made.workloads[0])
    for variant in variants_of(made, shared, tmp_path, Target(DEVICE)):
        kernel = kernel_file.parse(variant.source)
        assert kernel.plan(signature, DEVICE, kernel.defaults()).launches
