"""Rules of cumulative sums and products."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.values import Scan, Value


def _scan(kind: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        x, (axis,) = cast(call.tensor(0), call.node.dtype), call.integers(1, "dim")
        return Scan(x.dims, x.dtype, kind, x, axis % len(x.dims))

    return rule


RULES: Mapping[str, Rule] = {"cumsum": _scan("sum"), "cumprod": _scan("times")}
