"""Rules of the pointwise operations that need more than one C++ expression: operands with defaults, `alpha`, casts."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast, like
from cutegen_core.propose.playbook.pointwise.operations import (
    BINARY,
    CELU,
    ELU,
    GELU_ERF,
    GELU_TANH,
    SOFTPLUS,
    UNARY,
)
from cutegen_core.propose.playbook.values import Value, compute
from cutegen_core.records import operations as ops


def _arithmetic(rule: str) -> Rule:
    def apply(call: OperationCall) -> Value:
        a, b = (cast(v, call.node.dtype) for v in (call.tensor(0), call.scaled(1)))
        return compute(BINARY[rule], a, b, dtype=call.node.dtype)

    return apply


def _rsub(call: OperationCall) -> Value:
    a, b = (cast(v, call.node.dtype) for v in (call.scaled(0), call.tensor(1)))
    return compute(BINARY["rsub"], a, b, dtype=call.node.dtype)


def _to_whole(rule: str) -> Rule:
    """Return a rule that makes floats whole numbers; what is whole stays as it is."""

    def apply(call: OperationCall) -> Value:
        x = call.floating(0)
        return compute(UNARY[rule], x, dtype=x.dtype) if x.dtype in FLOATS else x

    return apply


def _div(call: OperationCall) -> Value:
    mode, whole = str(call.keyword("rounding_mode")), call.node.dtype not in FLOATS
    truncated = "whole_quotient({0}, {1})" if whole else "trunc{f}({0} / {1})"
    code = {"floor": BINARY["floor_divide"], "trunc": truncated}.get(mode, BINARY["div"])
    return compute(code, call.valued(0), call.valued(1), dtype=call.node.dtype)


def _round(call: OperationCall) -> Value:
    """Return whole numbers, or numbers of so many decimals; of fewer than none, whole tens, hundreds, ..."""
    x, decimals = call.floating(0), int(call.number(1, "decimals", 0))
    if decimals == 0:
        return _to_whole("round")(call)
    code = "rint{f}({0} * {1}) / {1}" if decimals > 0 else "rint{f}({0} / {1}) * {1}"
    return compute(code, x, like(x, 10.0 ** abs(decimals)), dtype=call.node.dtype)


def _gelu(call: OperationCall) -> Value:
    code = GELU_TANH if call.operand(1, "approximate", "none") == "tanh" else GELU_ERF
    return compute(code, call.tensor(0), dtype=call.node.dtype)


def _with_numbers(code: str, *names_defaults: tuple[str, float]) -> Rule:
    """Return a pointwise rule with number operands after the tensor: {1}, {2}, ..."""

    def rule(call: OperationCall) -> Value:
        x = call.floating(0)
        numbers = [like(x, call.number(i, name, default)) for i, (name, default) in enumerate(names_defaults, 1)]
        return compute(code, x, *numbers, dtype=call.node.dtype)

    return rule


def _clamp(call: OperationCall) -> Value:
    value = call.valued(0)
    for bound, index in _BOUNDS.get(ops.name(call.node), (("min", 1), ("max", 2))):
        given = next((name for name in (bound, f"{bound}_val") if call.has(index, name)), "")
        if given:
            code = "max_of({0}, {1})" if bound == "min" else "min_of({0}, {1})"
            value = compute(code, value, call.valued(index, given), dtype=value.dtype)
    return value


_BOUNDS: Mapping[str, tuple[tuple[str, int], ...]] = {"clamp_min": (("min", 1),), "clamp_max": (("max", 1),)}
"""Which bounds an operation has, and where; all others have both."""


def _pow(call: OperationCall) -> Value:
    base, exponent = call.tensor(0), call.operand(1, "exponent")
    simple = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrt{f}({0})", 1: "{0}", -1: "{T}(1) / {0}"}
    if isinstance(exponent, int | float) and exponent in simple:
        return compute(simple[exponent], cast(base, call.node.dtype), dtype=call.node.dtype)
    if call.node.dtype not in FLOATS:
        raise not_in_playbook(f"an integer power of {exponent!r}")
    return compute("pow{f}({0}, {1})", cast(base, call.node.dtype), call.tensor(1), dtype=call.node.dtype)


def _where(call: OperationCall) -> Value:
    return compute("{0} ? {1} : {2}", call.tensor(0), call.valued(1), call.valued(2), dtype=call.node.dtype)


def _to(call: OperationCall) -> Value:
    return cast(call.tensor(0), call.node.dtype)


def _dropout(call: OperationCall) -> Value:
    if call.flag(2, "train") and call.number(1, "p", 0.5):
        raise not_in_playbook("dropout in training mode")
    return call.tensor(0)


RULES: Mapping[str, Rule] = {
    "add": _arithmetic("add"), "sub": _arithmetic("sub"), "mul": _arithmetic("mul"), "rsub": _rsub, "div": _div,
    "floor": _to_whole("floor"), "ceil": _to_whole("ceil"), "trunc": _to_whole("trunc"), "round": _round,
    "gelu": _gelu, "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "hardtanh": _with_numbers(
        "min_of(max_of({0}, {1}), {2})", ("min_val", -1.0), ("max_val", 1.0)),
    "leaky_relu": _with_numbers("{0} > {T}(0) ? {0} : {0} * {1}", ("negative_slope", 0.01)),
    "elu": _with_numbers(ELU, ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": _with_numbers(CELU, ("alpha", 1.0)),
    "softplus": _with_numbers(SOFTPLUS, ("beta", 1.0), ("threshold", 20.0)),
    "threshold": _with_numbers("{0} <= {1} ? {2} : {0}", ("threshold", 0.0), ("value", 0.0)),
    "hardshrink": _with_numbers("abs_of({0}) <= {1} ? {T}(0) : {0}", ("lambd", 0.5)),
    "softshrink": _with_numbers("{0} > {1} ? {0} - {1} : {0} < -{1} ? {0} + {1} : {0} * {T}(0)", ("lambd", 0.5)),
    "pow": _pow, "where": _where, "dropout": _dropout, "feature_dropout": _dropout, "alpha_dropout": _dropout,
    "feature_alpha_dropout": _dropout,
    "to": _to, "_to_copy": _to, "type_as": _to,
}  # fmt: skip
