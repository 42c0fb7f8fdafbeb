"""Rules of what is accumulated along a dimension: sums, products, extremes, sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.values import Scan, Value


def _scan(kind: str) -> Rule:
    return lambda call: _scanned(kind, cast(call.tensor(0), call.node.dtype), call)


def _extreme_so_far(kind: str) -> Callable[[OperationCall], dict[str, Value]]:
    """Return a rule for the values; where they lie is not in the playbook."""
    return lambda call: {call.node.name: _scanned(kind, call.tensor(0), call)}


def _scanned(kind: str, x: Value, call: OperationCall) -> Value:
    (axis,) = call.integers(1, "dim")
    return Scan(x.dims, x.dtype, kind, x, axis % len(x.dims))


RULES: Mapping[str, Rule] = {
    "cumsum": _scan("sum"), "cumprod": _scan("times"), "logcumsumexp": _scan("logaddexp"),
}  # fmt: skip

SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "cummax": _extreme_so_far("max"), "cummin": _extreme_so_far("min"),
}  # fmt: skip
