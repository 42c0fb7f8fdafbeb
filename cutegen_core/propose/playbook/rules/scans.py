"""Rules of what is accumulated along a dimension: sums, products, extremes, sums of exponentials."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.values import Scan, Value, compute, position, varies


def _scan(kind: str) -> Rule:
    return lambda call: scanned(kind, cast(call.tensor(0), call.node.dtype), call)


def scanned(kind: str, x: Value, call: OperationCall) -> Value:
    """Return what is accumulated along the dimension that an operation names."""
    (dim,) = call.integers(1, "dim")
    axis = dim % len(x.dims)
    if kind == "sum" and not varies(x, axis):
        return compute("{0} * static_cast<{T}>({1} + 1)", x, position(x.dims, axis), dtype=x.dtype)
    return Scan(x.dims, x.dtype, kind, x, axis)


RULES: Mapping[str, Rule] = {
    "cumsum": _scan("sum"), "cumprod": _scan("times"), "logcumsumexp": _scan("logaddexp"),
}  # fmt: skip
