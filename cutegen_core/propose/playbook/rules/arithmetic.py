"""Rules of the pointwise operations that need more than one C++ expression: operands with defaults, `alpha`, casts."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast, like
from cutegen_core.propose.playbook.pointwise import BINARY, GELU_ERF, GELU_TANH
from cutegen_core.propose.playbook.values import Value, compute, unsqueeze


def _arithmetic(rule: str) -> Rule:
    def apply(call: OperationCall) -> Value:
        a, b = (cast(v, call.node.dtype) for v in (call.tensor(0), call.scaled(1)))
        return compute(BINARY[rule], a, b, dtype=call.node.dtype)

    return apply


def _div(call: OperationCall) -> Value:
    mode = call.node.kwargs.get("rounding_mode")
    whole = "trunc{f}({0} / {1})" if call.node.dtype in FLOATS else "{0} / {1}"
    code = {"floor": "floor_of({0}, {1})", "trunc": whole}.get(str(mode), "{0} / {1}")
    return _of_two(call, code)


def _of_two(call: OperationCall, code: str) -> Value:
    """Return arithmetic of two operands in the result's dtype."""
    return compute(code, *(cast(call.tensor(i), call.node.dtype) for i in (0, 1)), dtype=call.node.dtype)


def _fmod(call: OperationCall) -> Value:
    return _of_two(call, "fmod{f}({0}, {1})" if call.node.dtype in FLOATS else "{0} % {1}")


def _bitwise_not(call: OperationCall) -> Value:
    if call.node.dtype == "uint8":
        raise not_in_playbook("'bitwise_not' of uint8")
    return compute("!{0}" if call.node.dtype == "bool" else "~{0}", call.tensor(0), dtype=call.node.dtype)


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
    value = call.tensor(0)
    for index, names, kind in ((1, ("min", "min_val"), "max_of"), (2, ("max", "max_val"), "min_of")):
        for name in names:
            if call.has(index, name):
                value = compute(
                    f"{kind}({{0}}, {{1}})", value, cast(call.tensor(index, name), value.dtype), dtype=value.dtype
                )
                break
    return value


def _clamp_max(call: OperationCall) -> Value:
    return _of_two(call, "min_of({0}, {1})")


def _pow(call: OperationCall) -> Value:
    base, exponent = call.tensor(0), call.operand(1, "exponent")
    simple = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrt{f}({0})", 1: "{0}", -1: "{T}(1) / {0}"}
    if isinstance(exponent, int | float) and exponent in simple:
        return compute(simple[exponent], cast(base, call.node.dtype), dtype=call.node.dtype)
    if call.node.dtype not in FLOATS:
        raise not_in_playbook(f"an integer power of {exponent!r}")
    return compute("pow{f}({0}, {1})", cast(base, call.node.dtype), call.tensor(1), dtype=call.node.dtype)


def _where(call: OperationCall) -> Value:
    a, b = (cast(call.tensor(i), call.node.dtype) for i in (1, 2))
    return compute("{0} ? {1} : {2}", call.tensor(0), a, b, dtype=call.node.dtype)


def _masked_fill(call: OperationCall) -> Value:
    x, number = (cast(call.tensor(i), call.node.dtype) for i in (0, 2))
    return compute("{0} ? {1} : {2}", call.tensor(1), number, x, dtype=call.node.dtype)


def _lerp(call: OperationCall) -> Value:
    code = "{2} < {T}(0.5) ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * ({T}(1) - {2})"
    return compute(code, *(call.tensor(i) for i in range(3)), dtype=call.node.dtype)


def _scaled_third(code: str) -> Rule:
    """Return a rule of three tensors and a factor, `value`."""

    def rule(call: OperationCall) -> Value:
        x, a, b = (cast(call.tensor(i), call.node.dtype) for i in range(3))
        return compute(code, x, a, b, like(x, call.number(3, "value", 1)), dtype=call.node.dtype)

    return rule


def _nan_to_num(call: OperationCall) -> Value:
    x, most = call.tensor(0), _LARGEST.get(call.node.dtype)
    if most is None:
        raise not_in_playbook(f"'nan_to_num' of {call.node.dtype}")
    given = [call.operand(i, name) for i, name in ((1, "nan"), (2, "posinf"), (3, "neginf"))]
    numbers = [n if isinstance(n, int | float) else other for n, other in zip(given, (0.0, most, -most), strict=True)]
    code = "{0} != {0} ? {1} : {0} == {T}(INFINITY) ? {2} : {0} == -{T}(INFINITY) ? {3} : {0}"
    return compute(code, x, *(like(x, number) for number in numbers), dtype=call.node.dtype)


def _prelu(call: OperationCall) -> Value:
    x, weight = call.tensor(0), call.tensor(1)
    if len(x.dims) > 2 and not weight.dims[0].single:  # a weight for each channel, which is dimension 1
        for _ in x.dims[2:]:
            weight = unsqueeze(weight, -1)
    return compute("{0} > {T}(0) ? {0} : {1} * {0}", x, weight, dtype=call.node.dtype)


def _to(call: OperationCall) -> Value:
    return cast(call.tensor(0), call.node.dtype)


def _dropout(call: OperationCall) -> Value:
    if call.flag(2, "train"):
        raise not_in_playbook("dropout in training mode")
    return call.tensor(0)


_LARGEST: Mapping[str, float] = {
    "float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
}  # fmt: skip

RULES: Mapping[str, Rule] = {
    "add": _arithmetic("add"), "sub": _arithmetic("sub"), "mul": _arithmetic("mul"), "div": _div,
    "gelu": _gelu, "clamp": _clamp, "clamp_min": _clamp, "hardtanh": _with_numbers(
        "min_of(max_of({0}, {1}), {2})", ("min_val", -1.0), ("max_val", 1.0)),
    "leaky_relu": _with_numbers("{0} > {T}(0) ? {0} : {0} * {1}", ("negative_slope", 0.01)),
    "elu": _with_numbers("{0} > {T}(0) ? {0} * {2} : {1} * {2} * expm1{f}({0} * {3})",
                         ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": _with_numbers("{0} > {T}(0) ? {0} : {1} * expm1{f}({0} / {1})", ("alpha", 1.0)),
    "softplus": _with_numbers("{0} * {1} > {2} ? {0} : log1p{f}(exp{f}({0} * {1})) / {1}",
                              ("beta", 1.0), ("threshold", 20.0)),
    "threshold": _with_numbers("{0} > {1} ? {0} : {2}", ("threshold", 0.0), ("value", 0.0)),
    "hardshrink": _with_numbers("abs_of({0}) > {1} ? {0} : {T}(0)", ("lambd", 0.5)),
    "softshrink": _with_numbers("{0} > {1} ? {0} - {1} : {0} < -{1} ? {0} + {1} : {T}(0)", ("lambd", 0.5)),
    "remainder": lambda call: _of_two(call, "remainder_of({0}, {1})"), "fmod": _fmod,
    "floor_divide": lambda call: _of_two(call, "floor_of({0}, {1})"), "bitwise_not": _bitwise_not,
    "clamp_max": _clamp_max, "masked_fill": _masked_fill, "lerp": _lerp, "nan_to_num": _nan_to_num, "prelu": _prelu,
    "addcmul": _scaled_third("{0} + {3} * {1} * {2}"), "addcdiv": _scaled_third("{0} + {3} * ({1} / {2})"),
    "pow": _pow, "where": _where, "dropout": _dropout,
    "to": _to, "_to_copy": _to, "type_as": _to,
}  # fmt: skip
