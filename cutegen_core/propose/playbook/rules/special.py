"""Rules of the pointwise operations that ask what kind of number an element is, or take several numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce as chained

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, cast, like, mul, sub
from cutegen_core.propose.playbook.pointwise.operations import BINARY, LERP
from cutegen_core.propose.playbook.rules.products import added_to_first
from cutegen_core.propose.playbook.rules.taken import followed, in_one
from cutegen_core.propose.playbook.values import (
    ONE,
    ZERO,
    Extent,
    Value,
    broadcast,
    compute,
    constant,
    expand,
    is_constant,
    position,
    product,
    reduce,
    reshaped,
    squeeze,
    unsqueeze,
    window,
)

_FEW_BOUNDARIES = 16
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
    return compute(LERP, start, end, weight, dtype=call.node.dtype)


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
        code = "whole_rest({0}, {1})" if name == "fmod" and call.node.dtype not in FLOATS else BINARY[name]
        return compute(code, a, b, dtype=call.node.dtype)

    return rule


def _bitwise_not(call: OperationCall) -> Value:
    x = call.tensor(0)
    if x.dtype == "uint8":
        raise not_in_playbook("'bitwise_not' of uint8")
    return compute("!{0}" if x.dtype == "bool" else "~{0}", x, dtype=x.dtype)


def _float_power(call: OperationCall) -> Value:
    return compute("pow{f}({0}, {1})", *(call.valued(i) for i in (0, 1)), dtype=call.node.dtype)


def _ldexp(call: OperationCall) -> Value:
    """Return numbers times powers of two."""
    return mul(call.valued(0), apply("exp2", cast(call.tensor(1), call.node.dtype)))


def _outer(call: OperationCall) -> Value:
    a, b = (call.valued(i) for i in (0, 1))
    return mul(unsqueeze(a, -1), b)


def _addr(call: OperationCall) -> Value:
    """Return a matrix plus the products of two vectors, each times its factor."""
    a, b = (cast(call.tensor(i), call.node.dtype) for i in (1, 2))
    return added_to_first(call, mul(unsqueeze(a, -1), b))


def _kron(call: OperationCall) -> Value:
    """Return every element of the first tensor times the whole of the second one, which lies in its place."""
    a, b = (call.valued(i) for i in (0, 1))
    rank = max(len(a.dims), len(b.dims))
    a, b = (_of_rank(value, rank) for value in (a, b))
    dims = tuple(own.times(other) for own, other in zip(a.dims, b.dims, strict=True))
    for k in range(rank):
        a, b = unsqueeze(a, 2 * k + 1), unsqueeze(b, 2 * k)
    return reshaped(mul(a, b), dims)


def _of_rank(value: Value, rank: int) -> Value:
    while len(value.dims) < rank:
        value = unsqueeze(value, 0)
    return value


def _cross(call: OperationCall) -> Value:
    """Return the cross products of vectors of three elements along a dimension."""
    a, b = (call.valued(i) for i in (0, 1))
    axis = call.operand(2, "dim", -1)
    if not isinstance(axis, int):
        raise not_in_playbook("'cross' without a dimension")

    def turned(value: Value, by: int) -> Value:
        place = compute(f"({{0}} + {by}) % 3", position((value.dims[axis],), 0), dtype="int64")
        return in_one(value, axis, place)

    a, b = (expand(value, broadcast([a, b])) for value in (a, b))
    return sub(mul(turned(a, 1), turned(b, 2)), mul(turned(a, 2), turned(b, 1)))


def _fake_quantise(call: OperationCall) -> Value:
    """Return the numbers that whole ones of a range stand for, the nearest to each element."""
    x = call.tensor(0)
    scale, zero, least, most = (like(x, call.number(i, name, 0)) for i, name in enumerate(_QUANTISATION, 1))
    steps = compute("rint{f}({0} * ({T}(1) / {1}) + {2})", x, scale, zero, dtype=x.dtype)
    kept = compute("fmin{f}(fmax{f}({0}, {1}), {2})", steps, least, most, dtype=x.dtype)
    return compute("({0} - {1}) * {2}", kept, zero, scale, dtype=x.dtype)


_QUANTISATION = ("scale", "zero_point", "quant_min", "quant_max")


def _bucketize(call: OperationCall) -> Value:
    return _places_among(call, call.tensor(1), call.tensor(0))


def _search(call: OperationCall) -> Value:
    return _places_among(call, call.tensor(0), call.tensor(1))


def _places_among(call: OperationCall, boundaries: Value, x: Value) -> Value:
    """Return how many boundaries lie before an element: those that are less, or on request those that are not more.

    A few of them are looked at one after the other by the element's thread; of more an element is a row.
    """
    if call.keyword("sorter") is not None:
        raise not_in_playbook(f"'{call.node.op}' by an order of its own")
    right = call.flag(3, "right") or call.keyword("side") == "right"
    code = "!({0} > {1})" if right else "{0} < {1} || {1} != {1}"
    last = len(boundaries.dims) - 1
    count = boundaries.dims[last].size
    if is_constant(count) and 0 < count <= _FEW_BOUNDARIES:
        each = (window(boundaries, last, Extent(str(k), k), ONE) for k in range(count))
        return chained(add, (cast(compute(code, one, x, dtype="bool"), call.node.dtype) for one in each))
    if last > 0:
        boundaries = unsqueeze(boundaries, last)
    before = compute(code, boundaries, unsqueeze(x, len(x.dims)), dtype="bool")
    return cast(reduce("sum", cast(before, "int64"), (-1,), False), call.node.dtype)


def _isin(call: OperationCall) -> Value:
    """Return which elements are among those of another tensor, or are a number."""
    x, others = call.tensor(0), call.tensor(1)
    others = reshaped(others, (product(others.dims),)) if others.dims else others
    hits = compute("{0} == {1}", unsqueeze(x, len(x.dims)) if others.dims else x, others, dtype="bool")
    found = compute("{0} > 0", reduce("max", cast(hits, "int64"), (-1,), False), dtype="bool") if others.dims else hits
    return compute("!{0}", found, dtype="bool") if call.keyword("invert") else found


def _trapezoid(call: OperationCall) -> Value:
    """Return the area below straight lines between the elements of a row, at steps of one size or at given places."""
    y, axis = call.floating(0), int(call.number(99, "dim", -1))
    less = y.dims[axis].less(ONE)
    if not call.has(1, "x"):
        ends = add(window(y, axis, ZERO, ONE), window(y, axis, less, ONE))
        inner = sub(reduce("sum", y, (axis,), True), mul(ends, like(y, 0.5)))
        return squeeze(mul(inner, like(y, call.number(99, "dx", 1.0))), (axis % len(y.dims),))
    x = cast(call.tensor(1, "x"), y.dtype)
    along = -1 if len(x.dims) == 1 else axis
    steps: Value = sub(window(x, along, ONE, less), window(x, along, ZERO, less))
    if len(x.dims) == 1:
        steps = followed(steps, len(y.dims) - 1 - axis % len(y.dims))
    heights = mul(add(window(y, axis, ZERO, less), window(y, axis, ONE, less)), like(y, 0.5))
    return reduce("sum", mul(heights, steps), (axis,), False)


RULES: Mapping[str, Rule] = {
    "isnan": _tells("isnan({0})"), "isinf": _tells("isinf({0})"), "isfinite": _tells("isfinite({0})", True),
    "isposinf": _tells("isinf({0}) && {0} > 0"), "isneginf": _tells("isinf({0}) && {0} < 0"),
    "signbit": _signbit, "isclose": _isclose, "nan_to_num": _nan_to_num, "logit": _logit, "prelu": _prelu,
    "rrelu": _rrelu, "masked_fill": _masked_fill, "lerp": _lerp, "addcmul": _added("{1} * {2}"),
    "addcdiv": _added("({1} / {2})"), "fmod": _whole_division("fmod"), "remainder": _whole_division("remainder"),
    "floor_divide": _whole_division("floor_divide"), "bitwise_not": _bitwise_not, "float_power": _float_power,
    "ldexp": _ldexp, "outer": _outer, "addr": _addr, "kron": _kron, "cross": _cross, "linalg_cross": _cross,
    "fake_quantize_per_tensor_affine": _fake_quantise, "bucketize": _bucketize, "searchsorted": _search,
    "trapezoid": _trapezoid, "isin": _isin,
}  # fmt: skip
