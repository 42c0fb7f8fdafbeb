"""Rows that are sorted: by counting, and in shared memory; what is made of their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

STABLE = {
    "orders": (
        "x.sort(1)[0], x.sort(dim=1, descending=True, stable=True)[1], x.argsort(dim=0, stable=True), torch.msort(x)"
    ),
    "middles": (
        "x.median(1)[0], x.median(1)[1], x.median(), x.median(0, keepdim=True)[0], torch.quantile(x, 0.3, dim=1), "
        "torch.quantile(x, 0.75), torch.quantile(x, 1.0, dim=0, keepdim=True)"
    ),
    "many of a row": (
        "torch.cat((x, x + 0.5), 1).topk(20)[0], torch.cat((x, x * 2), 1).kthvalue(18)[0], "
        "x.topk(x.shape[1], largest=False)[0]"
    ),
    "other types": (
        "(x.nan_to_num(0, 9, -9) * 3).to(torch.int32).sort(1)[0], "
        "(x.nan_to_num(0, 9, -9) * 3).to(torch.int32).argsort(dim=1, stable=True), "
        "(x > 0).sort(dim=1, descending=True, stable=True)[1], x.half().sort(1)[0], "
        "x.round().sort(dim=1, stable=True)[1]"
    ),
    "of 64 bits": "y.sort(dim=-1, descending=True, stable=True)[1], torch.msort(y), y.argsort(dim=0, stable=True)",
}  # fmt: skip
"""What PyTorch says of equal elements and of NaN is tried on both."""
OTHERS = {
    "places": "x.argsort(), torch.cat((x, x + 0.5), 1).topk(20)[1], x[:, 2].sort()[1]",
    "of other kernels": (
        "torch.softmax(x, 1).sort(1, descending=True)[0].cumsum(1), (x @ x.t()).sort(1)[0], "
        "x.sort(1)[0].diff(dim=1) + 1, torch.sort(x.t(), 0)[0][1:3] * 2, x.mean(1).sort()[0]"
    ),
}  # fmt: skip


def case(results: str, *special: Values) -> Problem:
    awkward = {"R": 17, "C": 21}
    lines = ["y = (x.nan_to_num(0, 9, -9) * 3).long() * 3_000_000_019"]
    made = problem(f"({results})", {"R": 24, "C": 24}, awkward, lines=lines, x="torch.randn(R, C)")
    more = [Workload(str(kind), WorkloadRole.EMULATOR, awkward, kind) for kind in special]
    return replace(made, workloads=(*made.workloads, *more))


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", STABLE)
def test_rows_are_in_pytorchs_order(name: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    made = case(STABLE[name], Values.NAN, Values.INFINITE)
    first, *_, last = variants_of(made, shared, tmp_path)
    assert_right(made, (first, last) if every else (first,), made.workloads, shared, tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_made_of_an_order_is_right(name: str, shared: SharedTools, tmp_path: Path) -> None:
    made = case(OTHERS[name])
    assert_right(made, variants_of(made, shared, tmp_path)[:1], made.workloads, shared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("run", [pytest.param(4096, marks=pytest.mark.thorough), 256])
def test_a_row_of_any_length_is_sorted(run: int, shared: SharedTools, tmp_path: Path) -> None:
    """In shared memory, in runs that are joined, or in groups of these."""
    results = "(x.sort()[0], x.topk(min(30, x.shape[1]))[1], x.kthvalue(x.shape[1])[0])"
    made = problem(results, {"R": 2, "C": 1100}, {"R": 3, "C": 31}, x="torch.randn(R, C)")
    tried = (32, 63, 64, 65, 513, 1023, 1024, 1025) if run == 4096 else (64, 65, 1025)
    lengths = [Workload(f"{n}", WorkloadRole.EMULATOR, {"R": 1, "C": n}) for n in tried]
    made = replace(made, workloads=(*made.workloads, *lengths))
    last = variants_of(made, shared, tmp_path)[-1]
    assert_right(
        made,
        (last,),
        made.workloads,
        shared,
        tmp_path,
        compiled=run == 4096,
        params={"BLOCK1": 128, **{f"RUN{k}": run for k in (1, 3, 5)}, **{f"RUNS{k}": 2 for k in (1, 3, 5)}},
    )


def test_few_long_rows_are_sorted_for_their_largest(shared: SharedTools, tmp_path: Path) -> None:
    """A pass for each of eight takes sixteen kernels where several blocks share a row."""
    made = problem("x.topk(8)[0]", {"R": 2, "C": 1 << 18}, {"R": 2, "C": 71}, x="torch.randn(R, C)")
    variants = variants_of(made, shared, tmp_path)
    assert max(variant.source.count("__global__") for variant in variants) < 8
    assert_right(made, variants[-1:], made.workloads[1:], shared, tmp_path)


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ("x.half().argsort()", "'aten.argsort' of float16, whose equal elements come in any order"),
        ("x.round().half().sort()[1]", "result 1 of 'sort'"),
        ("x.long().topk(3)[0]", "'aten.topk' of int64"),
        ("torch.quantile(x, torch.tensor([0.1, 0.2]))", "'aten.quantile' of several shares"),
    ],
)
def test_an_order_that_no_kernel_knows_is_refused(
    results: str, reason: str, shared: SharedTools, tmp_path: Path
) -> None:
    with pytest.raises(NotInPlaybook, match=reason):
        variants_of(case(results), shared, tmp_path)
