"""Rules of the reductions: sums and extremes, and what is built of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, div, like, rounded, sub
from cutegen_core.propose.playbook.values import Size, Value, compute, product, reduce, squeeze, unsqueeze
from cutegen_core.records.graph import Operand


def mean_of(value: Value, axes: Sequence[int], keepdim: bool, correction: float = 0) -> Value:
    """Return the sum divided by the number of elements, which the plan computes for each workload."""
    total = reduce("sum", value, axes, keepdim)
    where = {a % len(value.dims) for a in axes} or set(range(len(value.dims)))
    count: Value = Size((), value.dtype, product([value.dims[a] for a in sorted(where)]).text)
    if correction:
        count = sub(count, like(value, correction))
    if correction > 1:  # of fewer elements than that the variance is no number, or infinite
        count = compute("max_of({0}, {T}(0))", count, dtype=count.dtype)
    return div(total, count)


def _mean(call: OperationCall) -> Value:
    return mean_of(call.floating(0), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _sum(call: OperationCall) -> Value:
    return reduce("sum", cast(call.tensor(0), call.node.dtype), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _extreme(kind: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        return reduce(kind, call.tensor(0), call.integers(1, "dim"), call.flag(2, "keepdim"))

    return rule


def _logsumexp(call: OperationCall) -> Value:
    x, axes, keepdim = rounded(call.floating(0)), call.integers(1, "dim"), call.flag(2, "keepdim")
    # An infinite maximum is not subtracted: inf - inf is no number, and the sum is 0 or infinite without that.
    largest = compute("(isinf({0}) ? 0 : {0})", reduce("max", x, axes, True), dtype=x.dtype)
    total = reduce("sum", apply("exp", sub(x, largest)), axes, True)
    result = add(apply("log", total), largest)
    return result if keepdim or not x.dims else squeeze(result, [a % len(x.dims) for a in axes])


def _variance(call: OperationCall, root: bool) -> Value:
    x, axes, keepdim = call.tensor(0), call.integers(1, "dim"), call.flag(3, "keepdim")
    correction = call.number(99, "correction", 1)
    if isinstance(call.operand(1), bool):
        axes, correction = (), float(call.flag(1, "unbiased"))
    elif isinstance(call.operand(2), bool):
        correction = float(call.flag(2, "unbiased"))
    squares = apply("square", sub(x, mean_of(x, axes, True)))
    value = mean_of(squares, axes, keepdim, correction)
    return apply("sqrt", value) if root else value


def _norm(call: OperationCall) -> Value:
    return norm_of(call.floating(0), call.number(1, "p", 2), call.integers(2, "dim"), call.flag(3, "keepdim"))


def norm_of(x: Value, power: float, axes: Sequence[int], keepdim: bool) -> Value:
    """Return the norm of this order; of order 0 the number of elements other than zero."""
    if power == 2:
        return apply("sqrt", reduce("sum", apply("square", x), axes, keepdim))
    if power == 1:
        return reduce("sum", apply("abs", x), axes, keepdim)
    if math.isinf(power):
        return reduce("max" if power > 0 else "min", apply("abs", x), axes, keepdim)
    if power == 0:
        return cast(_count(compute("{0} != {T}(0)", x, dtype="bool"), axes, keepdim), x.dtype)
    powers = compute("pow{f}({0}, {1})", apply("abs", x), like(x, power), dtype=x.dtype)
    return compute("pow{f}({0}, {1})", reduce("sum", powers, axes, keepdim), like(x, 1 / power), dtype=x.dtype)


def _linalg_norm(call: OperationCall) -> Value:
    """Return the norm of all elements, of vectors, or of matrices."""
    x, order, axes = call.floating(0), call.operand(1, "ord"), call.integers(2, "dim")
    if order is not None and len(axes) != 1 and (axes or len(x.dims) != 1):
        return _matrix_norm_of(x, order, axes or (0, 1), call.flag(3, "keepdim"))
    power = order if isinstance(order, int | float) else 2
    return norm_of(x, power, axes, call.flag(3, "keepdim"))


def _matrix_norm(call: OperationCall) -> Value:
    axes = call.integers(2, "dim") or (-2, -1)
    return _matrix_norm_of(call.floating(0), call.operand(1, "ord", "fro"), axes, call.flag(3, "keepdim"))


def _matrix_norm_of(x: Value, order: Operand, axes: Sequence[int], keepdim: bool) -> Value:
    """Return Frobenius' norm, or the largest or smallest sum of a column (of order 1) or row (of infinite order)."""
    if order == "fro":
        return norm_of(x, 2, axes, keepdim)
    if not isinstance(order, int | float) or abs(order) not in (1, math.inf):
        raise not_in_playbook(f"a matrix norm of order {order!r}")
    rows, columns = (axis % len(x.dims) for axis in axes)
    along, across = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = reduce("sum", apply("abs", x), (along,), True)
    found = reduce("max" if order > 0 else "min", sums, (across,), True)
    return found if keepdim else squeeze(found, (rows, columns))


def _dist(call: OperationCall) -> Value:
    return norm_of(sub(call.floating(0), call.floating(1)), call.number(2, "p", 2), (), False)


def _cdist(call: OperationCall) -> Value:
    """Return the distance of each row of one tensor to each of the other: a reduction of their difference."""
    a, b = call.floating(0), call.floating(1)
    apart = sub(unsqueeze(a, len(a.dims) - 1), unsqueeze(b, len(b.dims) - 2))
    return norm_of(apart, call.number(2, "p", 2), (-1,), False)


def _count(hit: Value, axes: Sequence[int], keepdim: bool) -> Value:
    return reduce("sum", cast(hit, "int64"), axes, keepdim)


def _count_nonzero(call: OperationCall) -> Value:
    return _count(_nonzero(call.tensor(0)), call.integers(1, "dim"), False)


def _some(kind: str) -> Rule:
    """Return a rule that tells whether any ("max") or all ("min") are other than zero."""

    def rule(call: OperationCall) -> Value:
        hits = cast(_nonzero(call.tensor(0)), "int64")
        found = reduce(kind, hits, call.integers(1, "dim"), call.flag(2, "keepdim"))
        # Of nothing, the largest is the least number there is, and the smallest the largest one.
        return compute("{0} > 0", found, dtype=call.node.dtype)

    return rule


def _nonzero(x: Value) -> Value:
    return x if x.dtype == "bool" else compute("{0} != 0", x, dtype="bool")


def _prod(call: OperationCall) -> Value:
    """Return the product, in float64 for floats: in another order, a part of a small one may overflow."""
    wide = "float64" if call.node.dtype in FLOATS else call.node.dtype
    whole = reduce("times", cast(call.tensor(0), wide), call.integers(1, "dim"), call.flag(2, "keepdim"))
    return cast(whole, call.node.dtype)


def _nansum(call: OperationCall) -> Value:
    x = cast(call.tensor(0), call.node.dtype)
    numbers = compute("{0} == {0} ? {0} : {T}(0)", x, dtype=x.dtype)
    return reduce("sum", numbers, call.integers(1, "dim"), call.flag(2, "keepdim"))


def _nanmean(call: OperationCall) -> Value:
    x = cast(call.tensor(0), call.node.dtype)
    counted = compute("{0} == {0} ? {T}(1) : {T}(0)", x, dtype=x.dtype)
    return div(_nansum(call), reduce("sum", counted, call.integers(1, "dim"), call.flag(2, "keepdim")))


def _aminmax(call: OperationCall) -> dict[str, Value]:
    name, x, axes, keepdim = call.node.name, call.tensor(0), call.integers(1, "dim"), call.flag(2, "keepdim")
    return {name: reduce("min", x, axes, keepdim), f"{name}[1]": reduce("max", x, axes, keepdim)}


def _spread_and_mean(root: bool) -> Callable[[OperationCall], dict[str, Value]]:
    def results(call: OperationCall) -> dict[str, Value]:
        name, axes = call.node.name, call.integers(1, "dim")
        axes = () if isinstance(call.operand(1), bool) else axes
        return {name: _variance(call, root), f"{name}[1]": mean_of(call.tensor(0), axes, call.flag(3, "keepdim"))}

    return results


RULES: Mapping[str, Rule] = {
    "sum": _sum, "mean": _mean, "amax": _extreme("max"), "amin": _extreme("min"), "logsumexp": _logsumexp,
    "var": lambda c: _variance(c, False), "std": lambda c: _variance(c, True), "norm": _norm,
    "linalg_vector_norm": _norm, "linalg_norm": _linalg_norm, "dist": _dist, "cdist": _cdist, "prod": _prod,
    "linalg_matrix_norm": _matrix_norm,
    "nansum": _nansum, "nanmean": _nanmean, "count_nonzero": _count_nonzero, "any": _some("max"), "all": _some("min"),
}  # fmt: skip

SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "aminmax": _aminmax, "var_mean": _spread_and_mean(False), "std_mean": _spread_and_mean(True),
}  # fmt: skip
