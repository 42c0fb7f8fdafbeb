"""Convolutions and poolings of the playbook: recognised, right on the emulator, compiled, or named as missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.kernel import kernel_file
from cutegen_core.propose.families.classify import classify
from cutegen_core.propose.playbook import NotInPlaybook, Target, propose
from cutegen_core.propose.playbook.values import Extent, SizedInt
from cutegen_core.propose.playbook.windows.geometry import pinned, slide
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.trial import Status
from cutegen_core.views.layouts import LayoutTable, Pattern, conflicts, evaluate, find
from tests.propose.playbook.right import DEVICE, assert_level_right, assert_right, problem, variants_of
from tests.shared_tools import SharedTools

LINE = {"N": 2, "C": 8, "O": 16, "K": 3, "L": 20}
IMAGE = {"N": 2, "C": 8, "O": 16, "K": 3, "H": 9, "W": 12}
BLOCK = {"N": 2, "C": 4, "O": 8, "K": 3, "D": 6, "H": 7, "W": 8}
SHORT = {"N": 1, "C": 4, "O": 6, "K": 2, "L": 13}
SMALL = {"N": 3, "C": 4, "O": 6, "K": 2, "H": 6, "W": 7}
THIN = {"N": 1, "C": 2, "O": 4, "K": 2, "D": 5, "H": 5, "W": 5}
X1, X2, X3 = "torch.randn(N, C, L)", "torch.randn(N, C, H, W)", "torch.randn(N, C, D, H, W)"
EDGES = f"{X2}.index_fill(3, torch.tensor([0]), torch.inf).index_fill(2, torch.tensor([0]), -torch.inf)"
NANS = f"{X2}.index_fill(2, torch.tensor([0]), torch.nan)"
FACTORS = "torch.randn(C, O, K, 2).index_fill(1, torch.tensor([2]), torch.inf)"
CONVOLUTIONS = {
    "1D, strided, padded, dilated": problem(
        "F.conv1d(x, w, b, stride=2, padding=3, dilation=2)", LINE, SHORT, x=X1, w="torch.randn(O, C, K)",
        b="torch.randn(O)"),
    "2D, then what follows": problem(
        "torch.tanh(self.conv(x)) * s + 0.5", IMAGE, SMALL, "self.conv = nn.Conv2d(C, O, (3, 2), padding=(1, 0))", x=X2,
        s="torch.randn(O, 1, 1)"),
    "2D, grouped": problem(
        "F.conv2d(x, w, stride=(1, 2), padding=(0, 1), groups=2)", {**IMAGE, "O": 32}, {**SMALL, "O": 18}, x=X2,
        w="torch.randn(O, C // 2, K, 2)"),
    "2D, as many places as before": problem(
        "F.conv2d(x, w, padding='same', dilation=(1, 3))", IMAGE, SMALL, x=X2, w="torch.randn(O, C, K, 2)"),
    "2D, without padding by name": problem(
        "F.conv2d(x, w, padding='valid')", IMAGE, SMALL, x=X2, w="torch.randn(O, C, K, 2)"),
    "2D, of a transposed image": problem(
        "F.conv2d(x.transpose(2, 3) * 2.0, w)", IMAGE, SMALL, x=X2, w="torch.randn(O, C, K, 2)"),
    "2D, one image": problem(
        "F.conv2d(x, w, b)", IMAGE, SMALL, x="torch.randn(C, H, W)", w="torch.randn(O, C, K, 2)", b="torch.randn(O)"),
    "2D, float16": problem(
        "torch.relu(F.conv2d(x, w, padding=1))", IMAGE, SMALL, x=f"{X2}.half()",
        w="(torch.randn(O, C, K, 2) / 8).half()"),
    "2D, twice": problem(
        "self.a(x) + torch.sigmoid(self.b(x))", IMAGE, SMALL,
        "self.a, self.b = nn.Conv2d(C, O, 3, padding=1), nn.Conv2d(C, O, 1)", x=X2),
    "2D, then softmax of the channels": problem(
        "torch.softmax(self.conv(x), 1)", IMAGE, SMALL, "self.conv = nn.Conv2d(C, O, 3)", x=X2),
    "3D": problem(
        "F.conv3d(x, w, b, stride=(1, 2, 1), padding=(1, 0, 2))", BLOCK, THIN, x=X3, w="torch.randn(O, C, K, 2, 3)",
        b="torch.randn(O)"),
    "3D, deep": problem(
        "torch.relu(F.conv3d(x, w, stride=(1, 2, 1), padding=1))", {**BLOCK, "C": 20}, {**THIN, "C": 11}, x=X3,
        w="torch.randn(O, C, K, 2, 3)"),
    "one tap": problem("self.conv(x)", IMAGE, SMALL, "self.conv = nn.Conv2d(C, O, 1)", x=X2),
    "depthwise 2D": problem(
        "F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=C)", IMAGE, SMALL, x=X2,
        w="torch.randn(C, 1, K, 3)", b="torch.randn(C)"),
    "depthwise 1D": problem(
        "torch.relu(F.conv1d(x, w, padding=1, groups=C))", LINE, SHORT, x=X1, w="torch.randn(2 * C, 1, K)"),
    "3D, grouped, few filters": problem(
        "F.conv3d(x, w, groups=2)", BLOCK, THIN, x=X3, w="torch.randn(O, C // 2, K, 2, 3)"),
    "transposed 1D": problem(
        "F.conv_transpose1d(x, w, b, stride=3, padding=2, output_padding=1, dilation=2)", LINE, SHORT, x=X1,
        w="torch.randn(C, O, K)", b="torch.randn(O)"),
    "transposed 2D, grouped": problem(
        "F.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 2), groups=2, dilation=(2, 1))", IMAGE, SMALL, x=X2,
        w="torch.randn(C, O // 2, K, 5)"),
    "transposed 2D, stride beyond the window": problem(
        "torch.tanh(F.conv_transpose2d(x, w, b, stride=3))", IMAGE, SMALL, x=X2, w="torch.randn(C, O, K, 1)",
        b="torch.randn(O)"),
    "transposed 3D": problem(
        "F.gelu(F.conv_transpose3d(x, w, b, stride=2, padding=1, output_padding=1))", BLOCK, THIN, x=X3,
        w="torch.randn(C, O, 3, K, 3)", b="torch.randn(O)"),
    "2D, grouped, bfloat16": problem(
        "F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)", {**IMAGE, "C": 20, "O": 36},
        {**SMALL, "C": 6, "O": 10}, x=f"{X2}.bfloat16()", w="(torch.randn(O, C // 2, K, 2) / 4).bfloat16()",
        b="torch.randn(O).bfloat16()"),
    "3D, float16": problem(
        "F.conv3d(x, w, padding=(0, 1, 1))", {**BLOCK, "C": 11, "O": 40}, THIN, x=f"{X3}.half()",
        w="(torch.randn(O, C, K, 2, 3) / 8).half()"),
    "transposed 2D, infinite factors": problem(
        "F.conv_transpose2d(x, w, stride=(2, 1), padding=1, output_padding=(1, 0))", IMAGE, SMALL, x=X2, w=FACTORS),
    "transposed 2D, infinite factors, float16": problem(
        "F.conv_transpose2d(x, w, stride=2, padding=1, dilation=(1, 3))", {**IMAGE, "C": 12}, SMALL, x=f"{X2}.half()",
        w=f"({FACTORS} / 4).half()"),
    "infinities and padding": problem(
        "F.conv2d(x, w, padding=1)", IMAGE, SMALL, x=EDGES, w="torch.rand(O, C, K, 2) + 0.1"),
}  # fmt: skip
POOLINGS = {
    "largest 1D, dilated": problem("F.max_pool1d(x, 4, 1, 2, 3)", LINE, {**SHORT, "L": 17}, x=X1),
    "largest 2D, rounded up": problem("F.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True)", IMAGE, SMALL, x=X2),
    "largest 2D, infinities": problem("F.max_pool2d(x, 3, 2, 1)", IMAGE, SMALL, x=EDGES),
    "largest 2D, NaN": problem("F.max_pool2d(x, 2, 1)", IMAGE, SMALL, x=NANS),
    "largest 2D, bfloat16": problem("F.max_pool2d(x, 3)", IMAGE, SMALL, x=f"{X2}.bfloat16()"),
    "largest 2D, bfloat16, overlapping": problem(
        "F.max_pool2d(x, 3, 2, 1)", {**IMAGE, "W": 32}, SMALL, x=f"{X2}.bfloat16()"),
    "largest 2D, of a transposed image": problem("F.max_pool2d(x.transpose(2, 3), 3, 1)", IMAGE, SMALL, x=X2),
    "largest 2D, with places": problem("F.max_pool2d(x, 2, return_indices=True)[0]", IMAGE, SMALL, x=X2),
    "largest 3D": problem("F.max_pool3d(x, 3, 2, 1, 2)", BLOCK, THIN, x=X3),
    "mean 1D": problem("F.avg_pool1d(x, 4, 1, 2)", LINE, SHORT, x=X1),
    "mean 2D, rounded up": problem("F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)", IMAGE, SMALL, x=X2),
    "mean 2D, of what is there": problem(
        "F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)", IMAGE, SMALL, x=X2),
    "mean 2D, divided by a number": problem("F.avg_pool2d(x, 2, 2, divisor_override=3)", IMAGE, SMALL, x=X2),
    "mean 2D, one image": problem("F.avg_pool2d(x, 3, 1, 1)", IMAGE, SMALL, x="torch.randn(C, H, W)"),
    "mean 3D": problem("F.avg_pool3d(x, (2, 3, 2), padding=(0, 1, 1))", BLOCK, THIN, x=X3),
    "mean of everything": problem("F.adaptive_avg_pool2d(x, 1)", IMAGE, SMALL, x=X2),
    "mean of rows": problem("F.adaptive_avg_pool2d(x, (None, 1))", IMAGE, SMALL, x=X2),
    "largest of everything": problem("F.adaptive_max_pool3d(x, (1, 1, 1))", BLOCK, THIN, x=X3),
    "of a chain, before a chain": problem(
        "torch.sigmoid(F.max_pool2d(torch.tanh(x) * 2.0, 2) - 1.0)", IMAGE, SMALL, x=X2),
    "of a convolution, then the mean": problem(
        "F.max_pool2d(torch.relu(self.conv(x)), 2).mean((2, 3), keepdim=True)", IMAGE, SMALL,
        "self.conv = nn.Conv2d(C, O, 3, padding=1)", x=X2),
}  # fmt: skip
CASES = {**CONVOLUTIONS, **POOLINGS}
FORMS = {
    "places of the largest": problem(
        "F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], F.max_pool2d(x[0], 2, return_indices=True)[1], "
        "F.max_pool1d(x[:, 0], 3, 2, return_indices=True)[1]", IMAGE, SMALL, x=X2),
    "places of the largest, several of which are NaN": problem(
        "F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], F.max_pool1d(x[:, 0], 3, 2, return_indices=True)[1]",
        IMAGE, SMALL, x=f"torch.where({X2} > 0, torch.nan, 1.0)"),
    "windows of unequal sizes": problem(
        "F.adaptive_avg_pool2d(x, (4, 5)), F.adaptive_max_pool2d(x, (5, 1)), F.adaptive_avg_pool1d(x[0], 5), "
        "F.interpolate(x, size=(4, 5), mode='area')", IMAGE, SMALL, x=X2),
    "windows of one size, by how many there are": problem(
        "F.adaptive_avg_pool2d(x, (3, W // 2)), F.adaptive_max_pool2d(x[0], (3, 1))", {**IMAGE, "W": 12},
        {**SMALL, "W": 8}, x=X2),
}  # fmt: skip
"""Of these the naive kernels are run."""
NUMBERS = {
    "groups that are the default elsewhere": problem(
        "self.conv(x)", IMAGE, {**SMALL, "C": 1}, "self.conv = nn.Conv2d(C, C, 3, groups=C, padding=1)", x=X2),
    "a window that follows the sizes": problem(
        "self.pool(x)", {**IMAGE, "K": 4}, {**SMALL, "K": 3}, "self.pool = nn.AvgPool2d(K)", x=X2),
    "extents of a result": problem(
        "(lambda y: torch.softmax(y.view(y.shape[0], y.shape[1], -1), 2).view(y.shape) * 2.0)(F.avg_pool2d(x, 2))",
        IMAGE, SMALL, x=X2),
    "1 and 1.0": problem("F.max_pool2d(x, 2).clamp(-1.0, 1.0).max(1)[0]", IMAGE, SMALL, x=X2),
}  # fmt: skip
ONE_LEVEL: dict[tuple[str, str], dict[str, int]] = {
    ("infinities and padding", "3xTF32"): {"BM": 16, "BN": 64, "BK": 16, "STAGES": 2, "DOWN": 1, "ACROSS": 2},
    ("transposed 2D, infinite factors, float16", "tiled"): {},
}
"""What is dear to compile: one kernel of it, with small tiles; the others are thorough."""
COMPILED = ("2D, grouped", "2D, float16", "transposed 1D", "transposed 3D", "3D, deep", "depthwise 2D", "largest 3D")


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_right_for_another_workload(case: str, shared: SharedTools, tmp_path: Path) -> None:
    variants = variants_of(CASES[case], shared, tmp_path)
    assert len({v.source for v in variants}) == len(variants) > 2
    assert_right(CASES[case], variants, CASES[case].workloads, shared, tmp_path, compiled=case in COMPILED)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", FORMS)
def test_further_forms_are_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = FORMS[name]
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads[1:], shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("case", "level"), list(ONE_LEVEL))
def test_one_variant_is_right_at_both_workloads(case: str, level: str, shared: SharedTools, tmp_path: Path) -> None:
    assert_level_right(CASES[case], level, ONE_LEVEL[case, level], shared, tmp_path)


READ_TWICE = {
    "a gate of its mean": "y * torch.sigmoid(y.mean((2, 3), keepdim=True).relu() * s)",
    "a norm of it, and what follows": "y + F.hardswish(F.group_norm(y, 2).tanh() * s)",
}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("case", READ_TWICE)
def test_a_convolution_that_is_read_twice_is_computed_once(case: str, shared: SharedTools, tmp_path: Path) -> None:
    forward = f"(lambda y: {READ_TWICE[case]})(F.conv2d(x, w, b))"
    one = problem(
        forward, IMAGE, SMALL, x=X2, w="torch.randn(O, C, K, K)", b="torch.randn(O)", s="torch.randn(O, 1, 1)"
    )
    variants = variants_of(one, shared, tmp_path)
    signature = shared.reference(one, tmp_path).signature(one.workloads[0])
    for variant in variants:
        plan = kernel_file.parse(variant.source).plan(signature, DEVICE)
        made = {launch.kernel.partition("<")[0] for launch in plan.launches if "_convolution" in launch.kernel}
        assert len([name for name in made if not name.endswith(("_image", "_weight"))]) == 1, variant.name
    assert_right(one, variants[:1], one.workloads, shared, tmp_path)


def test_a_batch_norm_before_a_pooling_is_shared_by_many_blocks(shared: SharedTools, tmp_path: Path) -> None:
    sizes = {"N": 64, "C": 4, "H": 64, "W": 64}
    one = problem(
        "F.max_pool2d(self.norm(x), 2)", sizes, {"N": 3, "C": 4, "H": 6, "W": 7}, "self.norm = nn.BatchNorm2d(C)", x=X2
    )
    signature = shared.reference(one, tmp_path).signature(one.workloads[0])
    *_, last = variants_of(one, shared, tmp_path, Target(DEVICE))
    launches = kernel_file.parse(last.source).plan(signature, DEVICE).launches
    assert max(launch.grid[0] for launch in launches if "_rows" in launch.kernel) >= 256, "blocks, of 4 channels"


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name == "1 and 1.0" else pytest.mark.thorough) for name in NUMBERS]
)
def test_numbers_of_the_graph_follow_the_workload(case: str, shared: SharedTools, tmp_path: Path) -> None:
    last = variants_of(NUMBERS[case], shared, tmp_path)[-1:]
    assert_right(NUMBERS[case], last, NUMBERS[case].workloads, shared, tmp_path)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("2D, then what follows", ["naive", "tiled", "3xTF32"]),
        ("transposed 1D", ["naive", "tiled", "3xTF32"]),
        ("2D, grouped", ["naive", "tiled", "3xTF32"]),
        ("3D, grouped, few filters", ["naive", "direct", "tuned"]),
        ("transposed 2D, grouped", ["naive", "tiled", "3xTF32"]),
        ("2D, float16", ["naive", "tiled", "tensor cores"]),
        ("depthwise 2D", ["naive", "direct", "staged"]),
        ("mean 3D", ["naive", "direct", "tuned"]),
        ("one tap", ["naive", "tiled", "multistage", "3xTF32"]),
    ],
)
def test_the_menu_follows_the_window(case: str, names: list[str], shared: SharedTools, tmp_path: Path) -> None:
    assert [v.name for v in variants_of(CASES[case], shared, tmp_path)] == names


def test_unrolled_loops_have_the_traced_window_where_its_size_follows_the_workload() -> None:
    follows, still = (Extent(text, SizedInt.of(3, text, (3, 2))) for text in ("w.shape[2]", "3"))
    seen = pinned(slide(Extent("x.shape[2]", 9), follows, still, follows, still))
    assert [(number.text, type(number.size)) for number in seen.numbers] == [("3", int)] * 4


UNROLLED = [name for name in CASES if name.startswith(("depthwise", "largest", "mean", "3D, grouped"))]


@pytest.mark.parametrize("case", UNROLLED)
def test_no_number_of_an_unrolled_window_is_a_parameter(case: str, shared: SharedTools, tmp_path: Path) -> None:
    for variant in variants_of(CASES[case], shared, tmp_path)[1:]:
        taken = {arg.expression.text for arg in kernel_file.parse(variant.source).launches[0].args}
        assert not [name for name in taken if name.startswith(("taps_", "padding_", "dilation_"))], variant.name


def test_floats_are_rounded_only_where_the_problem_allows_it(shared: SharedTools, tmp_path: Path) -> None:
    case = CASES["2D, then what follows"]
    reference, own = shared.reference(case, tmp_path), case.workloads[0]
    variants = propose(reference.graph(own), reference.signature(own), "case", Target(allow=("tf32",)))
    assert [v.name for v in variants] == ["naive", "tiled", "TF32"]
    assert kernel_file.parse(variants[-1].source).numerics.allow == ("tf32",)


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize(("case", "bytes_each"), [("2D, then what follows", 4), ("2D, float16", 2)])
def test_no_banks_meet_in_the_stages(
    case: str, bytes_each: int, pattern: Pattern, shared: SharedTools, tmp_path: Path
) -> None:
    """As the lens of the workbench counts, over a warp's copies of vectors into a stage and its reads from there."""
    source = variants_of(CASES[case], shared, tmp_path)[-1].source
    found = {one.name: one for one in find(source, kernel_file.parse(source).defaults())}
    for name in ("a_layout", "b_layout"):
        (table,) = evaluate(shared.executor, DEVICE, found[name].expression, found[name].before)
        assert isinstance(table, LayoutTable)
        assert conflicts(table, bytes_each, 16 // bytes_each, pattern) == 1, name


@pytest.mark.parametrize("case", ["3D", "transposed 1D", "largest 2D, rounded up"])
def test_the_family_agrees(case: str, shared: SharedTools, tmp_path: Path) -> None:
    reference = shared.reference(CASES[case], tmp_path)
    assert classify(reference.graph(CASES[case].workloads[0])).name == "convolution and pooling"


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("F.adaptive_max_pool2d(x, 2, return_indices=True)[1]", "result 1 of 'adaptive_max_pool2d'"),
        ("F.conv2d(x.long(), w.long())", "a convolution of int64 is not in the playbook"),
    ],
)
def test_what_is_missing_is_said(forward: str, reason: str, shared: SharedTools, tmp_path: Path) -> None:
    case = problem(forward, IMAGE, SMALL, x=X2, w="torch.randn(O, C, K, 2)")
    with pytest.raises(NotInPlaybook, match=reason):
        variants_of(case, shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name == "depthwise 2D" else pytest.mark.thorough) for name in COMPILED]
)
def test_the_last_variant_passes_a_whole_trial(case: str, shared: SharedTools, tmp_path: Path) -> None:
    """The judge's own runs: two poisons, two thread orders, the checked run, every kind of values."""
    last = variants_of(CASES[case], shared, tmp_path)[-1]
    evaluator = Evaluator(
        CASES[case], shared.reference(CASES[case], tmp_path), shared.executor, shared.compiler(), DEVICE, content_key,
        None, 10.0,
    )  # fmt: skip
    trial = evaluator.evaluate(Candidate(last.source, Author.PLAYBOOK), seed=3, watch=SilentWatch())
    assert trial.status is Status.PASSED, trial.message
