"""Rules of the matrix products."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, like, mul
from cutegen_core.propose.playbook.values import Product, Value, broadcast, permute, reduce, squeeze, unsqueeze


def _matmul(call: OperationCall) -> Value:
    return matmul(call.tensor(0), call.tensor(1), call.node.dtype)


def _linear(call: OperationCall) -> Value:
    product = matmul(call.tensor(0), permute(call.tensor(1), (1, 0)), call.node.dtype)
    return add(product, call.tensor(2)) if call.has(2, "bias") else product


def _addmm(call: OperationCall) -> Value:
    product = matmul(call.tensor(1), call.tensor(2), call.node.dtype)
    alpha, beta = (call.node.kwargs.get(k, 1) for k in ("alpha", "beta"))
    bias = call.tensor(0)
    if isinstance(alpha, int | float) and alpha != 1:
        product = mul(product, like(product, alpha))
    if isinstance(beta, int | float) and beta != 1:
        bias = mul(bias, like(bias, beta))
    return add(product, bias)


def matmul(a: Value, b: Value, dtype: str) -> Value:
    """Return torch.matmul: a product with a vector is a row reduction, everything else a (batched) `Product`."""
    if dtype not in FLOATS:
        raise not_in_playbook(f"a product of {dtype}")
    if len(b.dims) == 1:
        return reduce("sum", mul(a, b), (-1,), False)
    if len(a.dims) == 1:
        return reduce("sum", mul(unsqueeze(a, -1), b), (-2,), False)
    if b.dims[-1].single and len(b.dims) == 2:
        return reduce("sum", mul(a, squeeze(b, (1,))), (-1,), True)
    rank = max(len(a.dims), len(b.dims))
    a, b = (_padded(v, rank) for v in (a, b))
    batch = broadcast([_batch_part(a), _batch_part(b)]) if rank > 2 else ()
    return Product((*batch, a.dims[-2], b.dims[-1]), dtype, a, b)


def _padded(value: Value, rank: int) -> Value:
    while len(value.dims) < rank:
        value = unsqueeze(value, 0)
    return value


def _batch_part(value: Value) -> Value:
    return Value(value.dims[:-2], value.dtype)


RULES: Mapping[str, Rule] = {
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul, "linear": _linear,
    "addmm": _addmm, "baddbmm": _addmm,
}  # fmt: skip
