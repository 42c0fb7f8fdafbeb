"""Rules of the matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, cast, like, mul
from cutegen_core.propose.playbook.values import (
    Extent,
    Product,
    Reshape,
    Value,
    broadcast,
    is_constant,
    permute,
    power,
    product,
    reduce,
    reductions,
    reshaped,
    unsqueeze,
)

_WIDEST = "int64"
_WHOLE = (_WIDEST, "int32", "int16", "int8", "uint8")
"""What whole numbers are summed in, and those that have products."""
_FEW_TERMS, _FEW_ROWS = 16, 8
"""Terms of a sum, and rows or columns, at which products of matrices are read and written faster than by tiles."""


def _matmul(call: OperationCall) -> Value:
    return matmul(call.tensor(0), call.tensor(1), call.node.dtype)


def _linear(call: OperationCall) -> Value:
    made = matmul(call.tensor(0), permute(call.tensor(1), (1, 0)), call.node.dtype)
    return add(made, call.tensor(2)) if call.has(2, "bias") else made


def _addmm(call: OperationCall) -> Value:
    return added_to_first(call, matmul(call.tensor(1), call.tensor(2), call.node.dtype))


def _addbmm(call: OperationCall) -> Value:
    """Return a matrix plus the sum of the products of a batch."""
    return added_to_first(call, reduce("sum", matmul(call.tensor(1), call.tensor(2), call.node.dtype), (0,), False))


def added_to_first(call: OperationCall, made: Value) -> Value:
    """Return what is made, plus the first operand, each times its factor; times 0 that is ignored, NaN in it, too."""
    alpha, beta = (call.keyword(k, 1) for k in ("alpha", "beta"))
    bias = cast(call.tensor(0), call.node.dtype)
    if isinstance(alpha, int | float) and alpha != 1:
        made = mul(made, like(made, alpha))
    if beta == 0 and is_constant(beta):
        return made
    if isinstance(beta, int | float) and beta != 1:
        bias = mul(bias, like(bias, beta))
    return add(made, bias)


def _inner(call: OperationCall) -> Value:
    """Return the sums over the last dimension of both, each row with each."""
    a, b = call.tensor(0), call.tensor(1)
    if not (a.dims and b.dims):
        return mul(a, b)
    if len(b.dims) == 1:
        return matmul(a, b, call.node.dtype)
    columns = reshaped(b, (product(b.dims[:-1]), b.dims[-1]))
    made = matmul(a, permute(columns, (1, 0)), call.node.dtype)
    return reshaped(made, (*a.dims[:-1], *b.dims[:-1]))


def _matrix_power(call: OperationCall) -> Value:
    times = call.operand(1, "n")
    if not isinstance(times, int) or times < 1 or not is_constant(times):
        raise not_in_playbook(f"a matrix to the power of {times!r}")
    return power(call.tensor(0), times, partial(matmul, dtype=call.node.dtype))


def matmul(a: Value, b: Value, dtype: str) -> Value:
    """Return torch.matmul: products with a vector are row reductions, those of two vectors elements, others `Product`.

    What has one row or one column at every workload is a vector, too: its matrix is read once, and memory bounds it.
    """
    if dtype not in (*FLOATS, *_WHOLE):
        raise not_in_playbook(f"a product of {dtype}")
    if dtype in FLOATS:
        return _multiplied(a, b, dtype)
    return cast(_multiplied(a, b, _WIDEST), dtype)


def _multiplied(a: Value, b: Value, sums: str) -> Value:
    factor = a if sums in FLOATS else cast(a, sums)
    if len(b.dims) == 1:
        return reduce("sum", mul(factor, from_memory(b)), (-1,), False)
    if len(a.dims) == 1:
        return reduce("sum", mul(unsqueeze(from_memory(factor), -1), b), (-2,), False)
    rank = max(len(a.dims), len(b.dims))
    a, b, factor = (_padded(v, rank) for v in (a, b, factor))
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if a.dims[-1].single and b.dims[-2].single:
        return mul(factor, b)
    if b.dims[-1].single:
        return reduce("sum", mul(factor, permute(from_memory(b), swapped)), (-1,), True)
    if a.dims[-2].single:
        return permute(reduce("sum", mul(permute(b, swapped), from_memory(factor)), (-1,), True), swapped)
    if is_of_few_terms(a.dims[-1], a.dims[-2], b.dims[-1]):
        rows, columns = unsqueeze(from_memory(factor), -1), unsqueeze(from_memory(b), -3)
        return reduce("sum", mul(rows, columns), (-2,), False)
    batch = broadcast([_batch_part(a), _batch_part(b)]) if rank > 2 else ()
    return Product((*batch, a.dims[-2], b.dims[-1]), sums, a, b)


def is_of_few_terms(terms: Extent, rows: Extent, columns: Extent) -> bool:
    """Return whether memory bounds a product, and most of a tile would be idle: few terms, and few rows or columns; or
    no terms at all."""
    return terms.nothing or (terms.size <= _FEW_TERMS and min(rows.size, columns.size) <= _FEW_ROWS)


def from_memory(value: Value) -> Value:
    """Return a value from memory where sums are a part of it: else they would be computed again wherever it is read."""
    if any(reductions(value)) or value.accumulated is not None:
        return Reshape(value.dims, value.dtype, value)
    return value


def _padded(value: Value, rank: int) -> Value:
    while len(value.dims) < rank:
        value = unsqueeze(value, 0)
    return value


def _batch_part(value: Value) -> Value:
    return Value(value.dims[:-2], value.dtype)


RULES: Mapping[str, Rule] = {
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul, "linear": _linear,
    "addmm": _addmm, "baddbmm": _addmm, "addmv": _addmm, "addbmm": _addbmm,
    "inner": _inner, "vdot": _matmul, "matrix_power": _matrix_power, "_int_mm": _matmul,
}  # fmt: skip
