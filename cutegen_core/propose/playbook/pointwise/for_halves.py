"""Formulas of pointwise operations whose results are of 16 bits.

An operation's result is rounded to a half, so its formula need not be as exact as a float: functions that err by 2^-16
at most take a third of the instructions, which otherwise take longer than memory does. What is made of differences that
may cancel, such as `1 + erf`, is written without them, and what has two parts as their sum: where a few instructions
depend on a condition, each warp would take both ways, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf

from cutegen_core.propose.playbook.pointwise.operations import (
    BINARY,
    CELU,
    ELU,
    GELU_ERF,
    GELU_TANH,
    SOFTPLUS,
    UNARY,
)

_SOFTPLUS = "(max_of({0} * {1}, 0.0f) + rough_log1p_of_exp(-abs_of({0} * {1}))) * (1.0f / {1})"
_FAR = 17.0
"""From here on softplus is its argument, for a half."""
_FORMULAS: Mapping[str, str] = {
    UNARY["sigmoid"]: "rough_sigmoid({0})",
    UNARY["silu"]: "{0} * rough_sigmoid({0})",
    UNARY["mish"]: "{0} * rough_mish_gate({0})",
    GELU_ERF: "rough_gelu({0})",
    GELU_TANH: "{0} * rough_sigmoid({0} * (1.5957691216f + 0.0713548163f * {0} * {0}))",
    UNARY["erf"]: "rough_erf({0})",
    UNARY["selu"]: "1.05070099f * max_of({0}, 0.0f) + 1.75809934f * rough_expm1(min_of({0}, 0.0f))",
    ELU: "max_of({0}, 0.0f) * {2} + {1} * {2} * rough_expm1(min_of({0}, 0.0f) * {3})",
    CELU: "max_of({0}, 0.0f) + {1} * rough_expm1(min_of({0}, 0.0f) * (1.0f / {1}))",
    SOFTPLUS: "{0} * {1} > {2} ? {0} : " + _SOFTPLUS,
}
ROUGH_FUNCTIONS: Mapping[str, str] = {
    "polynomial": """// first + others[0] x + others[1] x^2 + ...
template <class... Others>
__device__ float polynomial(float x, float first, Others... others) {
  if constexpr (sizeof...(Others) == 0) return first;
  else return fmaf(x, polynomial(x, others...), first);
}
""",
    "rough_exp": """__device__ float rough_exp(float x) { return power_of_two(x * 1.44269504f); }
""",
    "rough_expm1": """__device__ float rough_expm1(float x) {
  float const near = x * polynomial(x, 1.0f, 0.5f, 0.166666667f);
  return fabsf(x) < 0.015625f ? near : rough_exp(x) - 1.0f;
}
""",
    "rough_sigmoid": """__device__ float rough_sigmoid(float x) { return reciprocal(1.0f + rough_exp(-x)); }
""",
    "rough_tanh": """__device__ float rough_tanh(float x) {
  float const near = x * polynomial(x * x, 1.0f, -0.333333333f);
  return fabsf(x) < 0.0625f ? near : fmaf(-2.0f, reciprocal(1.0f + rough_exp(2.0f * x)), 1.0f);
}
""",
    "rough_mish_gate": """// tanh(log(1 + exp(x))) = n / (n + 2), where n = exp(x) (exp(x) + 2); from 20 on it is 1.
__device__ float rough_mish_gate(float x) {
  float const power = rough_exp(fminf(x, 20.0f)), n = power * (power + 2.0f);
  return n * reciprocal(n + 2.0f);
}
""",
    "rough_log1p_of_exp": """// The logarithm of 1 + exp(x), where x is not above zero.
__device__ float rough_log1p_of_exp(float x) {
  float const e = rough_exp(x);
  return e * polynomial(e, 0.999991607f, -0.499361507f, 0.325207325f, -0.210049833f, 0.101223105f, -0.0238693336f);
}
""",
    "rough_erf": """// x times a polynomial of its square; from 2.75 on a half is 1.
__device__ float rough_erf(float x) {
  float const near = min_of(max_of(x, -2.75f), 2.75f);
  return near * polynomial(near * near, 1.12837059f, -0.375958886f, 0.112268312f, -0.0260876470f, 0.00466702724f,
                           -0.000618081191f, 5.61473929e-05f, -3.07098030e-06f, 7.53037855e-08f);
}
""",
    "rough_gelu": """// x times the normal distribution below it; that above |x| is a polynomial times exp(-x^2 / 2).
__device__ float rough_gelu(float x) {
  float const t = reciprocal(fmaf(0.3075f, fabsf(x), 1.0f));
  float const factor = t * polynomial(t, 0.122930568f, 0.118579115f, 0.136932312f, 0.00591193358f, 0.191180058f,
                                      -0.0755344939f);
  float const above = factor * power_of_two(x * x * -0.721347520f);
  return x * (x > 0.0f ? 1.0f - above : above);
}
""",
}  # fmt: skip
"""They err by 2^-16 of the result at most, where a half keeps 2^-11 of it. Polynomials are fitted so that their largest
relative error is as small as can be."""
_FUNCTIONS: Mapping[str, str] = {
    "log1p{f}(exp{f}(-abs_of({0})))": "rough_log1p_of_exp(-abs_of({0}))",
    "expm1{f}(": "rough_expm1(",
    "exp{f}(": "rough_exp(",
    "tanh{f}(": "rough_tanh(",
}
_FUNCTION = re.compile("|".join(rf"(?<!\w){re.escape(name)}" for name in _FUNCTIONS))


def for_halves(code: str, operands: Sequence[str]) -> str:
    """Return a formula in float arithmetic for a result of 16 bits; `operands` are names or literals."""
    if code == BINARY["div"] and not operands[1].isidentifier():
        return "{0} * (1.0f / {1})"
    if code == SOFTPLUS and _number(operands[2]) >= _FAR:
        return _SOFTPLUS
    return _FORMULAS.get(code) or _FUNCTION.sub(lambda found: _FUNCTIONS[found[0]], code)


def _number(operand: str) -> float:
    """Return the number of a literal of float, -inf for a name."""
    try:
        return float(operand.removesuffix("f"))
    except ValueError:
        return -inf
