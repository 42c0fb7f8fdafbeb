"""Combine values as a formula is written: in the dtype of the first operand, broadcast as PyTorch does."""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.propose.playbook.pointwise.operations import UNARY
from cutegen_core.propose.playbook.values import (
    COMPUTE_TYPE,
    ELEMENT,
    Compute,
    Constant,
    Load,
    Move,
    Value,
    compute,
    constant,
)


def cast(value: Value, dtype: str) -> Value:
    """Return the value in another dtype; half and bfloat16 arithmetic stays in float, so only kinds of arithmetic
    differ. A float of 8 bits is rounded: there is no arithmetic on it, so the reference wants it as it is stored."""
    if value.dtype == dtype:
        return value
    made = compute("static_cast<{T}>({0})", value, dtype=dtype)
    return as_stored(made) if dtype.startswith("float8") else made


def as_stored(x: Value) -> Value:
    """Return x as memory would hold it: computed halves are rounded, which arithmetic in float has not done yet.

    A step decides by it: a half and the same one that came through memory must compare as equal.
    """
    if isinstance(x, Move):
        return replace(x, operand=as_stored(x.operand))
    element = ELEMENT.get(x.dtype, "")
    if not element.startswith("cute::") or isinstance(x, Load | Constant):
        return x
    return compute(f"{{T}}({element}({{0}}))", x, dtype=x.dtype)


def wrapped(x: Value) -> Value:
    """Return what is computed in 64 bits as a whole number of fewer bits holds it; anything else as it is."""
    if not isinstance(x, Compute) or COMPUTE_TYPE[x.dtype] != "long" or x.dtype == "int64":
        return x
    return compute(f"{{T}}(static_cast<{ELEMENT[x.dtype]}>({{0}}))", x, dtype=x.dtype)


def like(value: Value, number: float) -> Value:
    """Return a number in the value's dtype."""
    return constant(number, value.dtype)


def add(a: Value, b: Value) -> Value:
    return compute("{0} + {1}", a, b, dtype=a.dtype)


def sub(a: Value, b: Value) -> Value:
    return compute("{0} - {1}", a, b, dtype=a.dtype)


def mul(a: Value, b: Value) -> Value:
    return compute("{0} * {1}", a, b, dtype=a.dtype)


def div(a: Value, b: Value) -> Value:
    return compute("{0} / {1}", a, b, dtype=a.dtype)


def apply(rule: str, value: Value) -> Value:
    """Apply a pointwise operation of one operand by its ATen name."""
    return compute(UNARY[rule], value, dtype=value.dtype)


def rounded(x: Value) -> Value:
    """Return x as it is everywhere it is read, for what is subtracted from it.

    A compiler contracts a product with the subtraction that follows it. Less its own largest element a large product
    would be what rounding took from it, which may be far above 0, and its exponential infinite.
    """
    if isinstance(x, Move):
        return replace(x, operand=rounded(x.operand))
    product = {"float": "__fmul_rn({0}, {1})", "double": "__dmul_rn({0}, {1})"}.get(COMPUTE_TYPE[x.dtype])
    if product is None or not isinstance(x, Compute) or x.code != "{0} * {1}":
        return x
    return replace(x, code=product)
