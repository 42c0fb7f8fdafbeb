"""Rules of the reductions: sums and extremes, and what is built of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, div, like, sub
from cutegen_core.propose.playbook.values import Size, Value, compute, product, reduce, squeeze


def mean_of(value: Value, axes: Sequence[int], keepdim: bool, correction: float = 0) -> Value:
    """Return the sum divided by the number of elements, which the plan computes for each workload."""
    total = reduce("sum", value, axes, keepdim)
    where = {a % len(value.dims) for a in axes} or set(range(len(value.dims)))
    count: Value = Size((), value.dtype, product([value.dims[a] for a in sorted(where)]).text)
    if correction:
        count = sub(count, like(value, correction))
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
    x, axes, keepdim = call.floating(0), call.integers(1, "dim"), call.flag(2, "keepdim")
    # An infinite maximum is not subtracted: inf - inf is no number, and the sum is 0 or infinite without that.
    largest = compute("(isinf({0}) ? 0 : {0})", reduce("max", x, axes, True), dtype=x.dtype)
    total = reduce("sum", apply("exp", sub(x, largest)), axes, True)
    result = add(apply("log", total), largest)
    return result if keepdim else squeeze(result, [a % len(x.dims) for a in axes])


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
    x, power = call.tensor(0), call.number(1, "p", 2)
    axes, keepdim = call.integers(2, "dim"), call.flag(3, "keepdim")
    if power == 2:
        return apply("sqrt", reduce("sum", apply("square", x), axes, keepdim))
    if power == 1:
        return reduce("sum", apply("abs", x), axes, keepdim)
    if math.isinf(power):
        return reduce("max" if power > 0 else "min", apply("abs", x), axes, keepdim)
    raise not_in_playbook(f"a norm of order {power}")


def _any(call: OperationCall) -> Value:
    found = reduce("max", _truth(call), call.integers(1, "dim"), call.flag(2, "keepdim"))
    return compute("{0} != 0", found, dtype="bool")


def _all(call: OperationCall) -> Value:
    found = reduce("min", _truth(call), call.integers(1, "dim"), call.flag(2, "keepdim"))
    return compute("{0} != 0", found, dtype="bool")


def _truth(call: OperationCall) -> Value:
    return compute("{0} != 0 ? 1L : 0L", call.tensor(0), dtype="int64")


RULES: Mapping[str, Rule] = {
    "sum": _sum, "mean": _mean, "amax": _extreme("max"), "amin": _extreme("min"), "logsumexp": _logsumexp,
    "any": _any, "all": _all,
    "var": lambda c: _variance(c, False), "std": lambda c: _variance(c, True),
    "norm": _norm, "linalg_vector_norm": _norm,
}  # fmt: skip
