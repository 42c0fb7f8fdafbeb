"""Writes at many places of a row: the places are sorted, so that what belongs to one lies next to each other."""

from pathlib import Path

import pytest

from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

SIZES, AWKWARD = {"N": 12, "F": 8, "E": 80}, {"N": 15, "F": 5, "E": 67}
INPUTS = {
    "x": "torch.randn(N, F)",
    "m": "torch.randn(E, F)",
    "s": "torch.randint(0, N, (E,))",
    "d": "torch.randint(0, N - 2, (E,))",
    "k": "torch.randint(0, N, (E, F))",
}
FORMS = {
    "many at a place": "x[:3].index_add(0, d.repeat(5) % 3, m.repeat(5, 1)) * 2",
    "messages of neighbours": (
        "torch.relu(torch.zeros_like(x).index_add(0, d, x[s] * m.sigmoid()) / torch.zeros(N).index_add(0, d, "
        "torch.ones(E)).clamp(min=1)[:, None])"
    ),
    "a softmax over the neighbours of each": (
        "torch.zeros_like(x).scatter_add(0, view, e / torch.zeros_like(x).scatter_add(0, view, e)[d])"
    ),
    "extremes, products and means, with and without what was there": (
        "x.scatter_reduce(0, k, m, 'amax'), x.scatter_reduce(0, k, m, 'prod'), x.scatter_reduce(0, view, m, 'mean'), "
        "x.scatter_reduce(0, view, m, 'mean', include_self=False), "
        "x.scatter_reduce(0, k, m, 'amin', include_self=False), x.index_reduce(0, d, m, 'amax'), "
        "x.index_reduce(0, d, m, 'mean', include_self=False)"
    ),
    "the last one written": (
        "x.scatter(0, k, m), x.index_copy(0, d, m), x.index_put((d - N,), m), x.scatter(0, k, 0.5), "
        "x.index_put((d,), m, accumulate=True), x.index_fill(0, d, 2.0)"
    ),
    "along the last dimension, and shorter in the others": (
        "x.t().contiguous().scatter_add(1, k[:, :3].t(), m.t()[:3]), x.t().index_add(1, d, m.t(), alpha=0.5), "
        "torch.zeros(3, N, F).scatter_add(1, k[None, :, :4], m[None].expand(3, E, F))"
    ),
    "counts, of halves and of doubles": (
        "torch.zeros(N, dtype=torch.int64).index_add(0, d, torch.ones_like(d)), "
        "x.half().index_add(0, d, m.half()), x.double().scatter_add(0, k, m.double()), "
        "torch.zeros(N, F, dtype=torch.int32).scatter_add(0, k, (m * 9).int())"
    ),
    "places of several tensors": (
        "x.index_put((s, d % F - F), m[:, 0], accumulate=True), x.index_put((s, k[:, 1] % F), m[:, 1]), "
        "m.index_put((k[:, :2],), x[:1, None] * 2, accumulate=True), x.index_put((d[:, None], s[:9] % F), m[0, 0]), "
        "x.index_put((torch.tensor([[1], [2]]), torch.tensor([0, 3])), m[:2, :2], accumulate=True), "
        "torch.stack((x, x), 1).index_put((s, d % 2), m, accumulate=True)"
    ),
    "of what other kernels make": "x.softmax(1).index_add(0, d, (m @ m.t())[:, :1] * m.softmax(1)) @ x.t()",
}
LINES = ["view, e = d[:, None].expand(E, m.shape[1]), m.exp()"]


@pytest.mark.by_default(1)
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_what_is_written_at_many_places_is_right(name: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    """By every kernel, or by the first one."""
    made = problem(FORMS[name], SIZES, AWKWARD, lines=LINES, **INPUTS)
    variants = variants_of(made, shared, tmp_path)
    assert all("auto const first_from" in variant.source for variant in variants)
    assert_right(made, variants if every else variants[:1], made.workloads, shared, tmp_path)
