"""References drawn at random: the playbook refuses one by name, or all its kernels are right."""

import re
from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.propose.playbook.rules import RULES
from cutegen_core.propose.playbook.values import reduce
from cutegen_core.records.errors import ProblemError
from tests.places import ROOT
from tests.propose.playbook.drawn import LOOPS, SMALL, WIDE, Range, draw
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

PLAYBOOK = ROOT / "cutegen_core" / "propose" / "playbook"
FEW, MANY = 1, 90
NOT_ON_A_CPU = "not implemented for 'BFloat16'"
"""What PyTorch says of a reference that it runs on GPUs only, such as distances."""


@pytest.mark.parametrize("of", [SMALL, WIDE, LOOPS], ids=["small", "wide", "loops"])
@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(FEW, MANY))]
)
def test_a_reference_drawn_at_random_is_refused_by_name_or_right(
    seed: int, of: Range, shared: SharedTools, tmp_path: Path
) -> None:
    case = draw(seed, of)
    try:
        variants = variants_of(case, shared, tmp_path)
        assert_right(case, variants if seed >= FEW else variants[-1:], case.workloads, shared, tmp_path)
    except NotInPlaybook:
        return
    except ProblemError as error:
        if NOT_ON_A_CPU not in str(error):
            raise


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "forward",
    [
        "torch.cumsum(x, 1)[:, :, ::2] * 2",
        "torch.cat((x.std(0, keepdim=True), x.mean(0, keepdim=True) * 2), 1)",
        "torch.stack((x.amax(1), x.mean(1) * 2, x.sum(1)), 1)",
        "x[:, :, ::2] + y",
    ],
)
def test_what_lies_side_by_side_at_one_size_only_is_not_taken_together(
    forward: str, every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    """Every second column, and results in one tensor: found by references drawn at random."""
    sizes, awkward = {"N": 2, "R": 8, "C": 16}, {"N": 3, "R": 7, "C": 13}
    made = problem(forward, sizes, awkward, x="torch.randn(N, R, C)", y="torch.randn(R, (C + 1) // 2)")
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last) if every else (last,), made.workloads, shared, tmp_path)


def test_sizes_that_are_computed_know_themselves_at_every_workload() -> None:
    """An expression has its value beside it for all workloads only where `combined` or `computed` makes it."""
    by_hand = re.compile(r'\bExtent\(f"[^"]*",[^)]*[-+*/]')
    found = [path.name for path in PLAYBOOK.rglob("*.py") if by_hand.search(path.read_text())]
    assert set(found) <= {"extents.py"}


HALVES, AWKWARD = {"N": 2, "R": 16, "C": 64}, {"N": 3, "R": 17, "C": 65}


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["half", pytest.param("bfloat16", marks=pytest.mark.thorough)])
def test_a_sum_of_halves_that_another_kernel_divides_is_more_than_they_hold(
    dtype: str, shared: SharedTools, tmp_path: Path
) -> None:
    """A norm of much larger rows than those that are summed afterwards."""
    forward = "(F.rms_norm(x, (R, C)) * (x > 0)).sum(2), F.normalize(x.std((1, 2)), dim=0)"
    made = problem(forward, HALVES, AWKWARD, x=f"torch.randn(N, R, C).{dtype}() * 60")
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last), made.workloads, shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("forward", ["F.rms_norm(squares, (C,))", "F.rms_norm(squares.amax(0, keepdim=True), (C,))"])
def test_a_square_of_a_sum_of_halves_is_more_than_they_hold(forward: str, shared: SharedTools, tmp_path: Path) -> None:
    """A norm of norms: the second one squares what another kernel has summed."""
    forward = forward.replace("squares", "torch.linalg.vector_norm(x * 100, dim=(0, 1), keepdim=True)[0]")
    made = problem(forward, HALVES, AWKWARD, x="torch.randn(N, R, C).half()")
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last), made.workloads, shared, tmp_path)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_sum_of_halves_that_a_product_reads_is_more_than_they_hold(
    every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    inputs = {"x": "torch.randn(N, R, C).half() * 60", "w": "torch.randn(C, 6).half()"}
    made = problem("(x / 64).sum(1) @ w", HALVES, AWKWARD, **inputs)
    kernels = variants_of(made, shared, tmp_path)
    assert_right(made, kernels if every else kernels[:1], made.workloads, shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["half", pytest.param("bfloat16", marks=pytest.mark.thorough)])
def test_a_half_equals_the_same_one_that_came_through_memory(dtype: str, shared: SharedTools, tmp_path: Path) -> None:
    """No row has a larger place than the largest one, and one of them has as large a one."""
    given = f"(x.argmax(1).{dtype}() / 3)"
    forward = f"torch.where({given} > {given}.amax(0, keepdim=True), {given}, 0), {given} >= {given}.amax(0)"
    inputs = {"x": f"torch.randn(N, R).{dtype}()"}
    made = problem(forward, {"N": 9, "R": 4000}, {"N": 7, "R": 3001}, **inputs)
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last), made.workloads, shared, tmp_path)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("forward", "lines"),
    [
        ("made * 2", ["made = torch.empty_like(x)", "made[:, ::2] = x[:, ::2]", "made[:, 1::2] = -x[:, 1::2]"]),
        ("made", ["made = x.amax(2, keepdim=True)", "made[..., 1:] = 3"]),
        ("torch.gather(x[:, 1:].exp(), 2, places[:, 1:]), (x[:, 1:] > 0).any(1), (x[:, 1:] > 0).all(1)", []),
        pytest.param("x[:, 1:].amax(2) * 2, x[:, 1:].sum(1), x[:, 1:].mT @ x[:, 1:]", [], marks=pytest.mark.thorough),
    ],
)
def test_what_has_no_elements_at_some_sizes_is_not_read(
    forward: str, lines: list[str], every: bool, shared: SharedTools, tmp_path: Path
) -> None:
    inputs = {"x": "torch.randn(N, R, C)", "places": "torch.randint(0, C, (N, R, C))"}
    made = problem(forward, {"N": 2, "R": 6, "C": 16}, {"N": 2, "R": 1, "C": 13}, lines=lines, **inputs)
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last) if every else (first,), made.workloads, shared, tmp_path)


@pytest.mark.thorough
def test_odd_rows_of_doubles_and_whole_numbers_are_copied_as_vectors(shared: SharedTools, tmp_path: Path) -> None:
    """Half a vector of them is one element."""
    inputs = {"x": "torch.randn(R, C).double()", "whole": "torch.randint(-9, 9, (R, C))"}
    forward = "F.layer_norm(x, (C,), eps=0.01) + whole % 4"
    made = problem(forward, {"R": 8, "C": 20}, {"R": 9, "C": 13}, **inputs)
    assert_right(made, variants_of(made, shared, tmp_path)[-1:], made.workloads, shared, tmp_path)


def test_a_rule_that_gives_another_shape_than_pytorch_is_refused_by_name(
    shared: SharedTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "relu", lambda call: reduce("sum", call.tensor(0), (0,), False))
    made = problem("torch.relu(x) + 1", {"R": 8, "C": 16}, {"R": 7, "C": 13}, x="torch.randn(R, C)")
    with pytest.raises(
        NotInPlaybook, match=r"'aten.relu', for which its rule has the shape \[16\] instead of \[8, 16\]"
    ):
        variants_of(made, shared, tmp_path)
