"""Triangles: which tiles of a product they reach, and where a reference has one."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from cutegen_core.propose.playbook import propose
from cutegen_core.propose.playbook.triangles import KeptTriangle
from tests.propose.playbook.right import problem
from tests.shared_tools import SharedTools

SIZES = {"M": 1024, "N": 1024, "K": 1024}
ONE_TILE = {"M": 5, "N": 5, "K": 5}
DRAW = {"a": "torch.randn(M, K)", "b": "torch.randn(K, N)", "c": "torch.randn(M, N)"}


@pytest.mark.parametrize("comparison", [">=", "<="])
@pytest.mark.parametrize("first", [-3, 0, 2])
def test_a_tile_is_reached_if_anything_of_it_is_kept(comparison: str, first: int) -> None:
    text = KeptTriangle(comparison, first).reached("row", "column", "3", "2")
    for row, column in itertools.product(range(0, 12, 3), range(0, 12, 2)):
        tile = itertools.product(range(row, row + 3), range(column, column + 2))
        kept = any((n - m >= first) if comparison == ">=" else (n - m <= first) for m, n in tile)
        assert eval(text, {"row": row, "column": column}) == kept, (row, column)


@pytest.mark.parametrize(
    ("forward", "skips", "leaves_tiles"),
    [
        ("torch.triu(a @ b)", True, True),
        ("torch.tril(torch.relu(a @ b + c), 1) * 2", True, True),
        ("torch.triu(a @ b).T", True, True),
        ("torch.triu(a) @ b", True, False),
        ("torch.triu(a @ b) + c", True, True),
        ("torch.triu(c) + a @ b", False, False),
        ("(lambda y: torch.triu(y) + y)(a @ b)", False, False),
        ("a @ b", False, False),
    ],
)  # fmt: skip
def test_tiles_are_left_out_only_where_the_product_does_not_count(
    forward: str, skips: bool, leaves_tiles: bool, shared: SharedTools, tmp_path: Path
) -> None:
    case = problem(forward, SIZES, ONE_TILE, **DRAW)
    reference, own = shared.reference(case, tmp_path), case.workloads[0]
    variants = propose(reference.graph(own), reference.signature(own), "case")
    assert any(v.name == "skipping" for v in variants) == skips
    assert ("nothing is kept" in variants[-1].source) == leaves_tiles
