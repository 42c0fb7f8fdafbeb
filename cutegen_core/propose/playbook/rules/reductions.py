"""Rules of the reductions: sums and extremes, and what is built of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, div, like, sub
from cutegen_core.propose.playbook.pointwise import BINARY
from cutegen_core.propose.playbook.values import Size, Value, compute, product, reduce, squeeze
from cutegen_core.records.graph import Ref


def mean_of(value: Value, axes: Sequence[int], keepdim: bool, correction: float = 0) -> Value:
    """Return the sum divided by the number of elements, which the plan computes for each workload."""
    total = reduce("sum", value, axes, keepdim)
    where = {a % len(value.dims) for a in axes} or set(range(len(value.dims)))
    count: Value = Size((), value.dtype, product([value.dims[a] for a in sorted(where)]))
    if correction:
        count = sub(count, like(value, correction))
    return div(total, count)


def _mean(call: OperationCall) -> Value:
    return mean_of(call.floating(0), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _sum(call: OperationCall) -> Value:
    return reduce("sum", cast(call.tensor(0), call.node.dtype), call.integers(1, "dim"), call.flag(2, "keepdim"))


def _extreme(kind: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        if isinstance(call.operand(1), Ref):
            return compute(BINARY[f"{kind}imum"], call.tensor(0), call.tensor(1), dtype=call.node.dtype)
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


def _loss(code: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        each = compute(code, call.tensor(0), call.tensor(1), dtype=call.node.dtype)
        reduction = call.operand(2, "reduction", 1)
        if reduction in (0, "none"):
            return each
        return mean_of(each, (), False) if reduction in (1, "mean") else reduce("sum", each, (), False)

    return rule


RULES: Mapping[str, Rule] = {
    "sum": _sum, "mean": _mean, "max": _extreme("max"), "amax": _extreme("max"), "min": _extreme("min"),
    "amin": _extreme("min"), "logsumexp": _logsumexp,
    "var": lambda c: _variance(c, False), "std": lambda c: _variance(c, True),
    "norm": _norm, "linalg_vector_norm": _norm,
    "mse_loss": _loss("({0} - {1}) * ({0} - {1})"), "l1_loss": _loss("abs_of({0} - {1})"),
}  # fmt: skip
