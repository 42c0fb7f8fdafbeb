"""Every aggregate is the mean over each row, and has the gradient of it."""

from itertools import pairwise

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import TORCH_AGGREGATES, Gradient
from tests.later import Later

torch = Later("torch")
aggregate = Later("cutegen_core.workloads.gnn.aggregate")


def rows(dtype):
    """Return a table, and rows among which are empty ones, one with the same node twice, and a hub."""
    torch.manual_seed(0)
    lengths = torch.tensor([0, 3, 1, 0, 200, 2, 0])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    idx = torch.randint(0, 50, (int(indptr[-1]),))
    idx[:3] = torch.tensor([7, 7, 9])
    return torch.randn(50, 24).to(dtype), idx, indptr


def means(table, idx, indptr):
    """Compute it by the definition, in float64."""
    parts = (table.double()[idx[a:b]] for a, b in pairwise(indptr))
    return torch.stack([part.mean(0) if len(part) else torch.zeros(table.shape[1]) for part in parts])


def distance(found, expected):
    """Relative to the size of the whole: the bfloat16 sum over a hub rounds often."""
    return float(((found.double() - expected).norm() / expected.norm()).detach())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", TORCH_AGGREGATES)
def test_means_and_gradients(name, dtype):
    table, idx, indptr = rows(getattr(torch, dtype))
    close = {"float32": 1e-6, "bfloat16": 0.01}[dtype]
    ours, exact = table.clone().requires_grad_(), table.double().requires_grad_()
    found, expected = aggregate.choose_aggregate(name).run(ours, idx, indptr), means(exact, idx, indptr)
    assert found.dtype is table.dtype
    assert distance(found, expected) < close
    assert not found[[0, 3, 6]].any()
    weights = torch.randn(expected.shape)
    found.backward(weights.to(found.dtype))
    expected.backward(weights.double())
    assert distance(ours.grad, exact.grad) < close


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gradient_in_one_order_is_the_gradient(dtype):
    table, idx, indptr = rows(getattr(torch, dtype))
    chosen = aggregate.choose_aggregate("embedding_bag", Gradient.DETERMINISTIC)
    assert chosen.transposed
    assert not aggregate.choose_aggregate("embedding_bag").transposed
    ours, exact = table.clone().requires_grad_(), table.double().requires_grad_()
    back = aggregate.TransposedTensors(
        torch.arange(7).repeat_interleave(indptr.diff())[torch.sort(idx, stable=True)[1]],
        torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(idx, minlength=50).cumsum(0)]),
    )
    weights = torch.randn(7, 24)
    found = [torch.autograd.grad(chosen.run(ours, idx, indptr, *more), ours, weights.to(ours.dtype))[0]
             for more in ((), (back,))]  # fmt: skip
    assert torch.equal(*found)
    means(exact, idx, indptr).backward(weights.double())
    assert distance(found[0], exact.grad) < {"float32": 1e-6, "bfloat16": 0.01}[dtype]


@pytest.mark.parametrize("name", TORCH_AGGREGATES[1:])
def test_what_adds_up_in_no_fixed_order_is_refused_where_one_is_asked_for(name):
    with pytest.raises(UsageError, match=f"gradient is deterministic, but {name} adds up in no fixed order"):
        aggregate.choose_aggregate(name, Gradient.DETERMINISTIC)


@pytest.mark.parametrize("name", TORCH_AGGREGATES)
def test_rows_that_are_all_empty(name):
    table = torch.ones(3, 4, requires_grad=True)
    found = aggregate.choose_aggregate(name).run(
        table, torch.zeros(0, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    )
    assert found.shape == (5, 4)
    assert not found.any()
    found.sum().backward()
    assert not table.grad.any()


@pytest.mark.parametrize("name", ["scatter", "", "Embedding_bag"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(UsageError, match="choose one of embedding_bag, index_add, spmm"):
        aggregate.choose_aggregate(name)
