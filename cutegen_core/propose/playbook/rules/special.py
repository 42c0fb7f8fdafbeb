"""Rules of the pointwise operations that ask what kind of number an element is, or take several numbers."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, like, mul, sub
from cutegen_core.propose.playbook.pointwise import BINARY
from cutegen_core.propose.playbook.values import Value, compute, constant, expand, unsqueeze

_LARGEST = {
    "float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0,
}  # fmt: skip


def _tells(code: str, of_whole: bool = False) -> Rule:
    """Return a rule that asks something of floats; `of_whole` is the answer for every whole number."""

    def rule(call: OperationCall) -> Value:
        x = call.tensor(0)
        if x.dtype in FLOATS:
            return compute(code, x, dtype="bool")
        return expand(constant(of_whole, "bool"), x.dims)

    return rule


def _signbit(call: OperationCall) -> Value:
    x = call.tensor(0)
    return compute("signbit({0})" if x.dtype in FLOATS else "{0} < 0", x, dtype="bool")


def _isclose(call: OperationCall) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    if a.dtype not in FLOATS:
        a, b = cast(a, "float64"), cast(b, "float64")
    relative, absolute = (like(a, call.number(i, k, d)) for i, k, d in ((2, "rtol", 1e-5), (3, "atol", 1e-8)))
    allowed = add(absolute, mul(relative, apply("abs", b)))
    apart = apply("abs", sub(a, b))
    both = " || ({0} != {0} && {1} != {1})" if call.flag(4, "equal_nan") else ""
    return compute(f"{{0}} == {{1}} || (isfinite({{2}}) && {{2}} <= {{3}}){both}", a, b, apart, allowed, dtype="bool")


def _nan_to_num(call: OperationCall) -> Value:
    x = call.tensor(0)
    if x.dtype not in FLOATS:
        return x
    largest = _LARGEST[x.dtype]
    defaults = (("nan", 0.0), ("posinf", largest), ("neginf", -largest))
    numbers = [
        like(x, call.number(i, name, default) if call.has(i, name) else default)
        for i, (name, default) in enumerate(defaults, 1)
    ]
    return compute("{0} != {0} ? {1} : isinf({0}) ? ({0} > {T}(0) ? {2} : {3}) : {0}", x, *numbers, dtype=x.dtype)


def _logit(call: OperationCall) -> Value:
    x, eps = call.floating(0), call.operand(1, "eps")
    if isinstance(eps, int | float):
        x = compute("min_of(max_of({0}, {1}), {2})", x, like(x, eps), like(x, 1 - eps), dtype=x.dtype)
    return compute("log{f}({0} / ({T}(1) - {0}))", x, dtype=x.dtype)


def _prelu(call: OperationCall) -> Value:
    x, slope = call.tensor(0), call.tensor(1)
    if not slope.dims[0].single:
        for _ in x.dims[2:]:
            slope = unsqueeze(slope, -1)
    return compute("{0} > {T}(0) ? {0} : {1} * {0}", x, slope, dtype=x.dtype)


def _rrelu(call: OperationCall) -> Value:
    if call.flag(3, "training"):
        raise not_in_playbook("rrelu in training mode")
    x = call.floating(0)
    slope = (call.number(1, "lower", 1 / 8) + call.number(2, "upper", 1 / 3)) / 2
    return compute("{0} > {T}(0) ? {0} : {0} * {1}", x, like(x, slope), dtype=x.dtype)


def _masked_fill(call: OperationCall) -> Value:
    x, mask, number = call.tensor(0), call.tensor(1), call.valued(2, "value")
    return compute("{0} ? {1} : {2}", mask, number, x, dtype=call.node.dtype)


def _lerp(call: OperationCall) -> Value:
    start, end, weight = call.tensor(0), call.tensor(1), call.valued(2, "weight")
    code = "abs_of({2}) < {T}(0.5) ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * ({T}(1) - {2})"
    return compute(code, start, end, weight, dtype=call.node.dtype)


def _added(code: str) -> Rule:
    """Return a rule for an operand plus `value` times what is made of two others."""

    def rule(call: OperationCall) -> Value:
        x, a, b = (cast(call.tensor(i), call.node.dtype) for i in range(3))
        return compute(f"{{0}} + {{3}} * {code}", x, a, b, like(x, call.number(3, "value", 1)), dtype=x.dtype)

    return rule


def _whole_division(name: str) -> Rule:
    """Return a rule for a division that gives whole numbers or leaves them, of floats and of integers."""

    def rule(call: OperationCall) -> Value:
        a, b = (call.valued(i) for i in (0, 1))
        code = "{0} % {1}" if name == "fmod" and call.node.dtype not in FLOATS else BINARY[name]
        return compute(code, a, b, dtype=call.node.dtype)

    return rule


def _bitwise_not(call: OperationCall) -> Value:
    x = call.tensor(0)
    if x.dtype == "uint8":
        raise not_in_playbook("'bitwise_not' of uint8")
    return compute("!{0}" if x.dtype == "bool" else "~{0}", x, dtype=x.dtype)


def _float_power(call: OperationCall) -> Value:
    return compute("pow{f}({0}, {1})", *(call.valued(i) for i in (0, 1)), dtype=call.node.dtype)


def _outer(call: OperationCall) -> Value:
    a, b = (call.valued(i) for i in (0, 1))
    return mul(unsqueeze(a, -1), b)


RULES: Mapping[str, Rule] = {
    "isnan": _tells("isnan({0})"), "isinf": _tells("isinf({0})"), "isfinite": _tells("isfinite({0})", True),
    "isposinf": _tells("isinf({0}) && {0} > 0"), "isneginf": _tells("isinf({0}) && {0} < 0"),
    "signbit": _signbit, "isclose": _isclose, "nan_to_num": _nan_to_num, "logit": _logit, "prelu": _prelu,
    "rrelu": _rrelu, "masked_fill": _masked_fill, "lerp": _lerp, "addcmul": _added("{1} * {2}"),
    "addcdiv": _added("({1} / {2})"), "fmod": _whole_division("fmod"), "remainder": _whole_division("remainder"),
    "floor_divide": _whole_division("floor_divide"), "bitwise_not": _bitwise_not, "float_power": _float_power,
    "outer": _outer,
}  # fmt: skip
