"""Matrix products: which kernels each kind has, that they are right on awkward sizes, and that no banks meet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from cutegen_core.execute.port import Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import KNOWN
from cutegen_core.propose.playbook import Target, Variant, cover, menu, propose
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Status
from cutegen_core.views.layouts import LayoutTable, Pattern, conflicts, evaluate, find
from tests.execute.emulator.emulated import not_asked
from tests.propose.playbook import right
from tests.propose.playbook.right import assert_right, problem
from tests.shared_tools import SharedTools

SM80, SM90 = KNOWN["sm_80"], KNOWN["sm_90a"]
LARGE = {"M": 2048, "N": 2048, "K": 256}
SQUARE = {"M": 1024, "N": 1024, "K": 1024}
LONG = {"M": 128, "N": 256, "K": 8192}
MANY, ENDLESS = {"M": 8, "N": 8, "K": 98304}, {"M": 1 << 24, "N": 16, "K": 32}
ODD = {"M": 1021, "N": 1019, "K": 77}
RAGGED, WHOLE, SLICES = {"M": 70, "N": 33, "K": 19}, {"M": 200, "N": 136, "K": 72}, {"M": 136, "N": 264, "K": 328}
HALF, BRAIN = ".half()", ".bfloat16()"


def of(forward: str, dtype: str = "", sizes: Mapping[str, int] = LARGE, **draw: str) -> Problem:
    return problem(forward, sizes, RAGGED, **{name: code + dtype for name, code in draw.items()})


NN = {"a": "torch.randn(M, K)", "b": "torch.randn(K, N)"}
NT = {"a": "torch.randn(M, K)", "b": "torch.randn(N, K)"}
UPPER = {"a": "torch.triu(torch.randn(M, K))", "b": "torch.triu(torch.randn(K, N))"}
TN = {"a": "torch.randn(K, M)", "b": "torch.randn(K, N)"}
TT = {"a": "torch.randn(K, M)", "b": "torch.randn(N, K)"}
INFINITE = "torch.where(torch.rand(M, K) > 0.998, torch.inf, torch.randn(M, K))"
BOTH_ENDS = f"torch.where(torch.rand(M, K) > 0.998, -torch.inf, {INFINITE})"
ROW_BY_ROW = {"a": "torch.randn(3, M, K)", "b": "torch.randn(3, K, N)", "c": "torch.randn(M, N)"}
EVERY_SECOND = {"a": "torch.randn(3, K, M)", "b": "torch.randn(3, 2 * K, N)"}
WITHOUT_FIRST = {"a": "torch.randn(3, M, K)", "b": "torch.randn(N, K)"}
CASES = {
    "plain": of("a @ b", **NN),
    "second transposed": of("torch.relu(a @ b.T)", **NT),
    "first transposed": of("a.T @ b", **TN),
    "both transposed, batched": of("torch.bmm(a.mT, b.mT)", a="torch.randn(3, K, M)", b="torch.randn(3, N, K)"),
    "upper": of("torch.triu(a @ b)", sizes=SQUARE, **UPPER),
    "lower, with more": of("torch.relu(torch.tril(a @ b + 1.0, -3))", sizes=SQUARE, **UPPER),
    "upper, halves": of("torch.triu(a @ b, 2)", HALF, SQUARE, **UPPER),
    "triangle as operand": of("torch.tril(a) @ b", sizes=SQUARE, **UPPER),
    "diagonal": of("torch.diag(c) @ b", c="torch.randn(K)", b="torch.randn(K, N)"),
    "not finite": of("a @ b.T", a=BOTH_ENDS, b="torch.randint(1, 4, (N, K)).float()"),
    "long, not finite": of("a @ b.T", "", LONG, a=BOTH_ENDS, b="torch.randint(1, 4, (N, K)).float()"),
    "zeros by infinities": of("a @ torch.tril(b)", sizes=SQUARE, a=INFINITE, b="torch.randn(K, N)"),
    "many": of("torch.bmm(a, b)", "", MANY, a="torch.randn(K, 9, M)", b="torch.randn(K, M, N)"),
    "long rows": of("a @ b", "", ENDLESS, **NN),
    "double": of("a @ b", ".double()", **NN),
    "halves": of("a @ b", HALF, **NN),
    "halves, second transposed": of("torch.relu(a @ b.T)", BRAIN, **NT),
    "halves, first transposed": of("a.T @ b", BRAIN, **TN),
    "halves, both transposed": of("a.T @ b.T", HALF, **TT),
    "halves, batched, with what is added": of("torch.bmm(a, b) + c", HALF, **ROW_BY_ROW),
    "odd halves": of("torch.relu(a @ b + c)", HALF, ODD, **NN, c="torch.randn(N)"),
    "odd halves, batched": of("torch.bmm(a.mT, b[:, ::2])", BRAIN, ODD, **EVERY_SECOND),
    "odd halves, one for all": of("torch.matmul(a, b[1:].T)", HALF, ODD, **WITHOUT_FIRST),
    "odd halves, long": of("a @ b", HALF, {"M": 33, "N": 31, "K": 20003}, **NN),
    "long": of("torch.relu(a @ b + c)", "", LONG, **NN, c="torch.randn(N)"),
    "long, halves, batched": of("torch.bmm(a, b) + c", HALF, LONG, **ROW_BY_ROW),
}  # fmt: skip
EINSUMS = problem(
    "torch.einsum('bi,bj,ijk->bk', a, b, c), torch.einsum('...ij,...jk', c, c.mT), torch.einsum('bi,bi->b', a, b), "
    "torch.einsum('bi,bj->jbi', a, b), torch.einsum('td,edf->tef', a, c), torch.einsum('bi->i', a), "
    "torch.einsum('bhqd,bhkd->bhkq', d, d), torch.einsum('ijk,bi->bkj', c, a), "
    "torch.ops.aten.einsum('bi,bj,ijk->bk', (a, b, c), path=(1, 2, 0, 1)), "
    "torch.einsum('i,bi->bi', torch.arange(a.shape[1]), a)",
    {"B": 16, "I": 12, "K": 9, "H": 3}, {"B": 5, "I": 7, "K": 4, "H": 2}, a="torch.randn(B, I)", b="torch.randn(B, I)",
    c="torch.randn(I, I, K)", d="torch.randn(2, H, K, I)",
)  # fmt: skip
RIGHT = [
    ("plain", "tiled"), ("halves, first transposed", "tiled"), ("plain", "multistage"),
    ("second transposed", "multistage"), ("first transposed", "multistage"),
    ("both transposed, batched", "multistage"), ("double", "multistage"), ("halves", "tensor cores"),
    ("halves, second transposed", "tensor cores"), ("halves, first transposed", "tensor cores"),
    ("halves, both transposed", "tensor cores"), ("halves, batched, with what is added", "tensor cores"),
    ("halves", "warp groups"), ("halves, second transposed", "warp groups"),
    ("halves, first transposed", "warp groups"), ("halves, both transposed", "warp groups"),
    ("halves, batched, with what is added", "warp groups"), ("long", "split"), ("long, halves, batched", "split"),
    ("plain", "3xTF32"), ("second transposed", "3xTF32"), ("first transposed", "3xTF32"),
    ("both transposed, batched", "3xTF32"), ("long", "3xTF32 split"), ("upper", "skipping"),
    ("upper", "3xTF32 skipping"), ("lower, with more", "multistage"), ("lower, with more", "skipping"),
    ("not finite", "3xTF32"), ("long, not finite", "3xTF32 split"), ("zeros by infinities", "skipping"),
    ("triangle as operand", "3xTF32 skipping"),
    ("diagonal", "skipping"), ("upper, halves", "tensor cores"),
    ("odd halves", "tensor cores"), ("odd halves", "warp groups"), ("odd halves, batched", "tensor cores"),
    ("odd halves, batched", "warp groups"), ("odd halves, one for all", "tensor cores"),
    ("odd halves, one for all", "warp groups"), ("odd halves, long", "split"),
]  # fmt: skip
SMALL_TILES = {
    ("long", "split"): {"BM": 64, "BN": 64, "SPLITS": 4},
    ("halves, second transposed", "warp groups"): {"GROUPS": 2, "BN": 64, "STAGES": 2},
}
"""They take less time to compile."""
COPIED = ("odd halves", "warp groups")
BY_DEFAULT = ("halves, second transposed", "warp groups")


def variants_of(case: str, shared: SharedTools, folder: Path, target: Target) -> tuple[Variant, ...]:
    reference, own = shared.reference(CASES[case], folder), CASES[case].workloads[0]
    variants = propose(reference.graph(own), reference.signature(own), "case", target)
    assert [v.name for v in variants] == [n for n, _ in menu(reference.graph(own), reference.signature(own), target)]
    return variants


@pytest.mark.parametrize(
    ("case", "target", "names"),
    [
        ("plain", Target(), ["multistage", "3xTF32"]),
        ("upper", Target(SM90), ["multistage", "skipping", "3xTF32 skipping"]),
        ("double", Target(SM90), ["multistage"]),
        ("halves", Target(), ["tensor cores"]),
        ("halves", Target(SM80), ["tensor cores"]),
        ("halves", Target(SM90), ["tensor cores", "warp groups"]),
        ("long", Target(SM90), ["multistage", "split", "3xTF32 split"]),
        ("long, halves, batched", Target(SM90), ["tensor cores", "warp groups", "split"]),
        ("odd halves, batched", Target(SM90), ["tensor cores", "warp groups"]),
        ("odd halves, long", Target(SM90), ["tensor cores", "warp groups", "split"]),
    ],
)
def test_the_menu_follows_types_sizes_and_device(
    case: str, target: Target, names: list[str], shared: SharedTools, tmp_path: Path
) -> None:
    assert [v.name for v in variants_of(case, shared, tmp_path, target)] == ["naive", "tiled", *names]


ONE_SIZE = [
    ("plain", ["multistage", "3xTF32"], 1), ("long", ["split", "3xTF32 split"], 2), ("upper", ["3xTF32 skipping"], 2),
    ("halves", ["tensor cores", "warp groups"], 1), ("double", ["multistage"], 1),
]  # fmt: skip


@pytest.mark.parametrize(("case", "levels", "launched"), ONE_SIZE)
def test_timed_at_one_size_other_sizes_take_the_naive_kernel(
    case: str, levels: list[str], launched: int, shared: SharedTools, tmp_path: Path
) -> None:
    """Nothing is compiled for sizes that are not timed, but the naive kernel, which runs alone there."""
    made, target = CASES[case], Target(SM90, one_size=True)
    reference, (_, *others) = shared.reference(made, tmp_path), made.workloads
    found = {v.name: kernel_file.parse(v.source) for v in right.variants_of(made, shared, tmp_path, target)}
    for level in levels:
        kernel = found[level]
        first, *rest = (kernel.plan(reference.signature(w), SM90, kernel.defaults()).launches for w in made.workloads)
        assert len(first) == launched
        assert [[one.kernel.split("<")[0][-4:] for one in launches] for launches in rest] == [["_any"]] * len(rest)
        assert len(kernel.launches) == launched + 1
    variants = [v for v in right.variants_of(made, shared, tmp_path, target) if v.name == levels[0]]
    assert_right(made, variants, others, shared, tmp_path)


def test_timed_at_one_odd_size_no_kernel_is_for_vectors(shared: SharedTools, tmp_path: Path) -> None:
    made = of("a @ b", sizes={"M": 1021, "N": 1019, "K": 77}, **NN)
    for variant in right.variants_of(made, shared, tmp_path, Target(SM90, one_size=True)):
        (launch,) = kernel_file.parse(variant.source).launches
        assert launch.when is None, variant.name


def test_a_problem_timed_at_two_sizes_has_fast_kernels_for_both() -> None:
    made = problem("a @ b", LARGE, RAGGED, **NN)
    assert Target.of(SM90, made).one_size
    more = replace(made, workloads=(*made.workloads, Workload("second", WorkloadRole.BENCHMARK, RAGGED)))
    assert not Target.of(SM90, more).one_size


@pytest.mark.parametrize(
    ("sizes", "level", "tile"),
    [
        ((4096, 4096, 4096), "3xTF32", {"BM": 128, "BN": 128}),
        ((768, 3072, 768), "3xTF32", {"BM": 64, "BN": 64}),
        ((2048, 1000, 2048), "3xTF32", {"BM": 128, "BN": 128}),
        ((384, 384, 8192), "3xTF32 split", {"BM": 64, "BN": 64}),
        ((1024, 1024, 4096), "3xTF32 split", {"BM": 128, "BN": 128, "SPLITS": 2}),
    ],
)
def test_the_tile_is_one_that_fills_the_device(
    sizes: tuple[int, int, int], level: str, tile: Mapping[str, int], shared: SharedTools, tmp_path: Path
) -> None:
    """Each is the fastest of those that were tried at this size on an H200."""
    made = of("a @ b.T", sizes=dict(zip("MNK", sizes, strict=True)), **NT)
    *_, last = right.variants_of(made, shared, tmp_path, Target(SM90))
    assert last.name == level
    assert tile.items() <= kernel_file.parse(last.source).defaults().items()


@pytest.mark.parametrize(
    ("sizes", "names", "tile"),
    [
        ((8192, 8192, 8192), ["warp groups"], {"GROUPS": 2, "BN": 192}),
        ((4096, 4096, 4096), ["warp groups"], {"GROUPS": 2, "BN": 256}),
        ((1536, 4096, 4096), ["warp groups"], {"GROUPS": 2, "BN": 192}),
        ((512, 4096, 4096), ["warp groups"], {"GROUPS": 2, "BN": 128}),
        ((64, 11008, 4096), ["warp groups"], {"GROUPS": 1, "BN": 128}),
        ((16, 4096, 4096), ["warp groups", "split"], {"GROUPS": 1, "BN": 128}),
    ],
)
def test_the_tile_of_warp_groups_fills_the_device(
    sizes: tuple[int, int, int], names: list[str], tile: Mapping[str, int], shared: SharedTools, tmp_path: Path
) -> None:
    made = of("a @ b.T", BRAIN, dict(zip("MNK", sizes, strict=True)), **NT)
    found = {v.name: v.source for v in right.variants_of(made, shared, tmp_path, Target(SM90))}
    assert list(found)[3:] == names
    assert tile.items() <= kernel_file.parse(found["warp groups"]).defaults().items()


@pytest.mark.thorough
@pytest.mark.parametrize("operand", ["x[None]", "x[None].expand(R, C)"], ids=["one", "repeated"])
def test_rows_without_a_distance_of_their_own_are_reached(operand: str, shared: SharedTools, tmp_path: Path) -> None:
    """A vector that is a matrix of one row, and one that is repeated: a tensor map has no stride of 0."""
    drawn = {"x": "torch.randn(C, dtype=torch.float16)", "w": "torch.randn(C, R, dtype=torch.float16)"}
    made = problem(f"{operand} @ w / 4", {"R": 16, "C": 24}, {"R": 24, "C": 40}, **drawn)
    last = right.variants_of(made, shared, tmp_path, Target(SM90))[-1]
    right.assert_right(made, (last,), made.workloads, shared, tmp_path)


def test_einstein_sums_are_products_and_sums(shared: SharedTools, tmp_path: Path) -> None:
    naive = right.variants_of(EINSUMS, shared, tmp_path)[:1]
    right.assert_right(EINSUMS, naive, EINSUMS.workloads, shared, tmp_path)


ONE_ROW = {
    "products of a column": "torch.bmm(a, b), torch.bmm(h, k) + 1, torch.relu(a @ b[0])",
    "products of a row": "torch.bmm(b.mT, a.mT), torch.matmul(a[0, :1], w), F.linear(h[:, :1], v) * 2",
    "two vectors": "torch.bmm(b, b.mT), (h[:, :, :1] @ k.mT).float()",
    "a chain of vectors": "F.linear(F.gelu(F.linear(a[0, :1], w.t())), w) * 2",
    "attention of one query": (
        "F.scaled_dot_product_attention(b.mT, a, a), F.scaled_dot_product_attention(k.mT, h, h)"
    ),
    "attention of one query to some keys": "F.scaled_dot_product_attention(b.mT, a, a, attn_mask=a[:, None, :, 0] > 0)",
}


@pytest.mark.by_default(4)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("case", ONE_ROW)
def test_what_has_one_row_or_column_is_a_vector(case: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    inputs = {
        "a": "torch.randn(B, M, K)", "b": "torch.randn(B, K, 1)", "h": "torch.randn(B, M, K).half()",
        "k": "torch.randn(B, K, 1).half()", "w": "torch.randn(K, K)", "v": "torch.randn(M, K).half()",
    }  # fmt: skip
    used = {name: code for name, code in inputs.items() if re.search(rf"\b{name}\b", ONE_ROW[case])}
    made = problem(f"({ONE_ROW[case]})", {"B": 2, "M": 40, "K": 32}, {"B": 3, "M": 9, "K": 13}, **used)
    variants = right.variants_of(made, shared, tmp_path)
    assert not any("product" in one.kernel for v in variants for one in kernel_file.parse(v.source).launches)
    right.assert_right(made, variants if every else variants[:1], made.workloads, shared, tmp_path)


def test_squares_that_no_half_holds_are_held_as_floats(shared: SharedTools, tmp_path: Path) -> None:
    """Normalise a product that is a result, too: the product's kernel makes the squares."""
    made = problem(
        "F.rms_norm((x @ x.mT) / 16, (N, N), eps=0.01), (x @ x.mT) / 16", {"N": 20, "K": 12}, {"N": 12, "K": 6},
        x="torch.randn(N, K).half() - 60",
    )  # fmt: skip
    right.assert_right(made, right.variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("level", ["naive", "tiled", "3xTF32"])
def test_parts_of_what_another_kernel_writes_are_operands(level: str, shared: SharedTools, tmp_path: Path) -> None:
    """The second one, which lies backwards in memory, is copied first."""
    forward = "torch.cumsum(a, 1)[:, 4:] @ b + torch.cumsum(a, 1).flip(1)[:, 4:] @ b"
    made = problem(forward, LARGE, {"M": 33, "N": 37, "K": 24}, a="torch.randn(M, K)", b="torch.randn(K - 4, N)")
    chosen = [v for v in right.variants_of(made, shared, tmp_path) if v.name == level]
    right.assert_right(made, chosen, made.workloads[1:], shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_results_of_other_types_are_made_of_sums_in_the_operands_type(
    dtype: str, every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    """The position of the largest element (what is ranked is a whole number), comparisons, casts; every kernel, or the
    first one."""
    forward = "(a @ b).argmax(1), a @ b > 0, (a @ b).sign().to(torch.int16), (a @ b).bfloat16(), (a @ b).double()"
    inputs = {"a": f"torch.randn(M, K).{dtype}()", "b": f"torch.randn(K, N).{dtype}()"}
    made = problem(forward, {"M": 64, "N": 64, "K": 64}, {"M": 9, "N": 7, "K": 10}, **inputs)
    variants = right.variants_of(made, shared, tmp_path)
    right.assert_right(made, variants if every else variants[:1], made.workloads, shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("dtype", ["int32", "int8", "int64"])
def test_every_kernel_multiplies_whole_numbers(dtype: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    """Or the first one."""
    inputs = {
        "a": f"torch.randint(-9, 9, (M, K)).to(torch.{dtype})",
        "b": f"torch.randint(-9, 9, (K, N), dtype=torch.{dtype})",
    }
    made = problem("(a @ b).float() * 0.5, a @ b", LARGE, {"M": 33, "N": 37, "K": 24}, **inputs)
    variants = right.variants_of(made, shared, tmp_path)
    assert len(variants) == 2
    right.assert_right(made, variants if every else variants[:1], made.workloads[1:], shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("dtype", ["float", "half"])
def test_an_operand_of_which_nothing_is_contiguous_is_copied_at_every_size(
    dtype: str, every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    """By elements, or as whole vectors by kernels before; or the kernels are run, too."""
    inputs = {"a": f"torch.randn(M, 2 * K).{dtype}()", "b": f"torch.randn(K, N).{dtype}()"}
    made = problem("a[:, ::2] @ b", {"M": 64, "N": 64, "K": 64}, {"M": 9, "N": 7, "K": 10}, **inputs)
    variants = right.variants_of(made, shared, tmp_path)
    launches = [kernel_file.parse(variant.source).launches for variant in variants]
    assert {len(each) for each in launches} == ({1} if dtype == "float" else {1, 3})
    assert not any(launch.when for each in launches for launch in each)
    right.assert_right(made, variants if every else variants[:1], made.workloads, shared, tmp_path)


@pytest.mark.parametrize(
    ("case", "level"),
    [pytest.param(*one, marks=() if one in (BY_DEFAULT, COPIED) else pytest.mark.thorough) for one in RIGHT],
)
def test_a_kernel_is_right_where_tiles_and_vectors_do_not_fit(
    case: str, level: str, shared: SharedTools, tmp_path: Path
) -> None:
    """Sizes that are no whole vectors, no whole tiles, and more slices than stages; instrumented, in random order."""
    reference = shared.reference(CASES[case], tmp_path)
    variants = variants_of(case, shared, tmp_path, Target(SM90))
    kernel = kernel_file.parse(next(v.source for v in variants if v.name == level))
    params = {**kernel.defaults(), **SMALL_TILES.get((case, level), {})}
    built = shared.executor.build(kernel, params, not_asked, checked=True)
    assert built.status is Status.PASSED, built.log
    launched = set()
    sizes_of = {
        "ragged": RAGGED,
        "whole": WHOLE,
        "odd columns": {**WHOLE, "N": 33},
        **({} if (case, level) in SMALL_TILES else {"slices": SLICES}),
    }
    for name, sizes in sizes_of.items():
        workload = Workload(name, WorkloadRole.EMULATOR, sizes)
        signature, inputs = reference.signature(workload), reference.write_inputs(workload, 1)
        outputs = {spec: tmp_path / f"{spec.name}.out" for spec in signature.outputs}
        for path in outputs.values():
            path.write_bytes(b"")
        plan = kernel.plan(signature, SM90, params, workload=name)
        launched |= {launch.line for launch in plan.launches}
        with shared.executor.open(built) as execute:
            ran = execute(Execution(built, plan, inputs, outputs, order="random", seed=5))
        assert ran.status is Status.PASSED, ran.message
        assert [c.wrong for c in reference.compare(workload, 1, outputs)] == [0], name
    assert launched == {launch.line for launch in kernel.launches}, "every launch of the file is reached"


@pytest.mark.parametrize("case", ["many", "long rows", "upper", "long"])
def test_every_grid_can_be_launched(case: str, shared: SharedTools, tmp_path: Path) -> None:
    """Only the first extent may be above 65535: there are as many products, or tiles below one another."""
    signature = shared.reference(CASES[case], tmp_path).signature(CASES[case].workloads[0])
    for variant in variants_of(case, shared, tmp_path, Target(SM90)):
        kernel = kernel_file.parse(variant.source)
        assert kernel.plan(signature, SM90, kernel.defaults()).launches, variant.name


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "level", "names", "width", "pattern"),
    [
        ("plain", "multistage", ("a_slice", "b_slice"), 1, Pattern.ALONG_ROW),
        ("plain", "multistage", ("a_slice", "b_slice"), 1, Pattern.DOWN_COLUMN),
        ("halves, second transposed", "tensor cores", ("a_layout", "b_layout"), 8, Pattern.DOWN_COLUMN),
        ("halves, second transposed", "tensor cores", ("a_layout", "b_layout"), 8, Pattern.ALONG_ROW),
        ("second transposed", "3xTF32", ("a_layout", "b_layout"), 4, Pattern.DOWN_COLUMN),
        ("second transposed", "3xTF32", ("a_layout", "b_layout"), 4, Pattern.ALONG_ROW),
        ("first transposed", "3xTF32", ("a_layout", "b_layout"), 1, Pattern.DOWN_COLUMN),
    ],
)  # fmt: skip
def test_no_banks_meet_in_the_stages(
    case: str, level: str, names: Sequence[str], width: int, pattern: Pattern, shared: SharedTools, tmp_path: Path
) -> None:
    """As the lens of the workbench counts, over a warp's copies into a stage and its reads from there."""
    variants = variants_of(case, shared, tmp_path, Target(SM90))
    source = next(v.source for v in variants if v.name == level)
    params = {"BK": 8} if level == "multistage" else {}  # as many as neighbouring threads copy along K
    found = {one.name: one for one in find(source, {**kernel_file.parse(source).defaults(), **params})}
    for name in names:
        (table,) = evaluate(shared.executor, SM90, found[name].expression, found[name].before)
        assert isinstance(table, LayoutTable)
        assert conflicts(table, 2 if "halves" in case else 4, width, pattern) == 1, name


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    "sizes", [{"M": 24, "N": 512, "K": 96}, {"M": 512, "N": 32, "K": 72}, {"M": 48, "N": 40, "K": 64}]
)
@pytest.mark.parametrize(("forward", "draw"), [("a @ b", NN), ("a @ b.T", NT), ("a.T @ b", TN), ("a.T @ b.T", TT)])
def test_tiles_of_every_height_hold_operands_of_every_order(
    forward: str, draw: Mapping[str, str], sizes: Mapping[str, int], shared: SharedTools, tmp_path: Path
) -> None:
    made = of(forward, HALF, sizes, **draw)
    found = right.variants_of(made, shared, tmp_path, Target(SM80))
    assert_right(made, found[-1:], made.workloads, shared, tmp_path)


SHORT = {
    "few terms, few rows": ("torch.bmm(x, y)", "torch.randn(B, 2, 3)", "torch.randn(B, 3, N)", ("rows",)),
    "few terms, few columns": ("x @ y", "torch.randn(B, N, 5)", "torch.randn(5, 7)", ("rows",)),
    "few channels": (
        "F.relu(F.conv2d(x, y)) + 1", "torch.randn(B, 3, N, 9)", "torch.randn(6, 3, 1, 1)", ("rows",)
    ),
    "few columns": ("torch.relu(x @ y)", "torch.randn(N, 80)", "torch.randn(80, 20)", ("product",)),
    "few rows": ("x @ y", "torch.randn(40, 80)", "torch.randn(80, N)", ("product",)),
    "rows across": (
        "F.linear(x.permute(2, 0, 1), y)", "torch.randn(2, 36, N)", "torch.randn(40, 36)", ("product",)
    ),
}  # fmt: skip


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", SHORT)
def test_a_product_with_a_short_side_leaves_no_tile_idle(name: str, shared: SharedTools, tmp_path: Path) -> None:
    """Take no tile at all for few terms, a tile that just holds a short side, and as rows what there is most of."""
    forward, x, y, families = SHORT[name]
    made = problem(forward, {"B": 300, "N": 2048}, {"B": 3, "N": 70}, x=x, y=y)
    reference, own = shared.reference(made, tmp_path), made.workloads[0]
    assert cover(reference.graph(own), reference.signature(own)).families == families
    *_, last = right.variants_of(made, shared, tmp_path, Target(SM90))
    if families == ("product",):
        kernel = kernel_file.parse(last.source)
        tile = kernel.defaults()["BM"] * kernel.defaults()["BN"]
        (launch,) = kernel.plan(reference.signature(own), SM90, kernel.defaults()).launches
        results = sum(spec.numel for spec in reference.signature(own).outputs)
        assert prod(launch.grid) * tile < 2 * results
    assert_right(made, (last,), made.workloads[1:], shared, tmp_path, compiled=families == ("rows",))
