"""Combine values as a formula is written: in the dtype of the first operand, broadcast as PyTorch does."""

from __future__ import annotations

from cutegen_core.propose.playbook.pointwise import UNARY
from cutegen_core.propose.playbook.values import Value, compute, constant


def cast(value: Value, dtype: str) -> Value:
    """Return the value in another dtype; half and bfloat16 arithmetic stays in float, so only kinds of arithmetic
    differ."""
    return value if value.dtype == dtype else compute("static_cast<{T}>({0})", value, dtype=dtype)


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
