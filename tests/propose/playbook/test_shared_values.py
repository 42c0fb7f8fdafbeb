"""Values share what they are made of: the time for a chain of layers grows with the layers, not with the paths."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.propose.playbook.values import deep
from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

SIZES, AWKWARD = {"M": 24, "N": 16}, {"M": 6, "N": 10}
BODIES = {
    "arithmetic": "h + torch.tanh(h)",
    "product": "h + h @ w",
    "rows": "h * torch.sigmoid(h) + h.mean(1, keepdim=True)",
}
LOOKS = {
    "as it is": "h", "a part": "h[:, 1:5]", "an element": "h[:, 0]", "every second": "h[:, ::2]",
    "flipped": "h.flip(1)",
    "windows": "h.unfold(1, 4, 2)", "a reshape": "h.t().reshape(-1)", "joined": "torch.cat((h, h.roll(1, 1)), 1)",
    "a scan": "h.cumsum(1)", "a diagonal": "torch.diagonal(h)", "a triangle": "torch.tril(h)", "a sum": "h.sum()",
    "a product": "h @ h.t()", "pooled": "F.max_pool1d(h, 2)", "enlarged": "F.interpolate(h[None], scale_factor=2)",
    "elements by index": "h[torch.arange(3)]", "distances": "torch.cdist(h, h)",
}  # fmt: skip


def chain(body: str, layers: int, look: str) -> str:
    return f"[h := x, *(h := {body} for _ in range({layers})), {look}][-1]"


def seconds(body: str, layers: int, look: str, shared: SharedTools, folder: Path) -> float:
    case = problem(chain(body, layers, look), SIZES, AWKWARD, x="torch.randn(M, N) / 9", w="torch.randn(N, N) / 9")
    begun = time.process_time()
    variants_of(case, shared, folder)
    return time.process_time() - begun


@pytest.mark.by_default(1)
@pytest.mark.parametrize("looks", [list(LOOKS)[::3], list(LOOKS)], ids=["some", "all"])
@pytest.mark.parametrize("body", ["arithmetic", "product", "rows"])
def test_a_layer_more_costs_the_same_whatever_is_looked_at(
    body: str, looks: Sequence[str], shared: SharedTools, tmp_path: Path
) -> None:
    slow = {}
    for name in looks:
        few, many = (seconds(BODIES[body], layers, LOOKS[name], shared, tmp_path) for layers in (4, 14))
        if many > 30 * few + 0.5:  # a path doubles with a layer: 1000 times
            slow[name] = (few, many)
    assert not slow


def test_a_long_chain_is_written(shared: SharedTools, tmp_path: Path) -> None:
    assert seconds("h + torch.tanh(h) / 9", 200, "h[:, 1:5]", shared, tmp_path) < 20


def test_a_long_product_is_put_in_order(shared: SharedTools, tmp_path: Path) -> None:
    case = problem(
        "torch.linalg.multi_dot([x] + [w] * 15)", SIZES, AWKWARD, x="torch.randn(M, N)", w="torch.randn(N, N) / 4"
    )
    begun = time.process_time()
    variants_of(case, shared, tmp_path)
    assert time.process_time() - begun < 20  # each part of the chain is ordered once; all ways are ten million


def test_an_endless_one_is_refused() -> None:
    def follow() -> None:
        follow()

    with pytest.raises(NotInPlaybook, match="a chain of thousands of operations"), deep():
        follow()


@pytest.mark.thorough
def test_a_chain_is_right(shared: SharedTools, tmp_path: Path) -> None:
    look = "torch.tanh(h)[:, 1:5], h.flip(1), h[:, ::2].sum(1)"
    case = problem(
        f"[h := x, *(h := h - h ** 3 / 9 for _ in range(12)), ({look})][-1]", SIZES, AWKWARD, x="torch.randn(M, N)"
    )
    assert_right(case, variants_of(case, shared, tmp_path), case.workloads, shared, tmp_path)
