"""ATen's pointwise operations as C++ expressions.

{0}, {1}, ... are operands, {T} the arithmetic type, {f} the suffix of a float function. NaN passes through every one of
them as it does in PyTorch, which is why comparisons are written the way they are.
"""

from __future__ import annotations

from collections.abc import Mapping

UNARY: Mapping[str, str] = {
    "relu": "{0} < {T}(0) ? {T}(0) : {0}",
    "relu6": "{0} < {T}(0) ? {T}(0) : {0} > {T}(6) ? {T}(6) : {0}",
    "sigmoid": "{T}(1) / ({T}(1) + exp{f}(-{0}))",
    "silu": "{0} / ({T}(1) + exp{f}(-{0}))",
    "tanh": "tanh{f}({0})",
    "abs": "abs_of({0})",
    "neg": "-{0}",
    "exp": "exp{f}({0})",
    "exp2": "exp2{f}({0})",
    "expm1": "expm1{f}({0})",
    "log": "log{f}({0})",
    "log2": "log2{f}({0})",
    "log10": "log10{f}({0})",
    "log1p": "log1p{f}({0})",
    "sqrt": "sqrt{f}({0})",
    "rsqrt": "{T}(1) / sqrt{f}({0})",
    "reciprocal": "{T}(1) / {0}",
    "square": "{0} * {0}",
    "erf": "erf{f}({0})",
    "erfc": "erfc{f}({0})",
    "sin": "sin{f}({0})",
    "cos": "cos{f}({0})",
    "tan": "tan{f}({0})",
    "asin": "asin{f}({0})",
    "acos": "acos{f}({0})",
    "atan": "atan{f}({0})",
    "sinh": "sinh{f}({0})",
    "cosh": "cosh{f}({0})",
    "asinh": "asinh{f}({0})",
    "acosh": "acosh{f}({0})",
    "atanh": "atanh{f}({0})",
    "lgamma": "lgamma{f}({0})",
    "sinc": "{0} == {T}(0) ? {T}(1) : sin{f}({T}(3.14159265358979324) * {0}) / ({T}(3.14159265358979324) * {0})",
    "deg2rad": "{0} * {T}(0.01745329251994329577)",
    "rad2deg": "{0} * {T}(57.29577951308232088)",
    "frac": "{0} - trunc{f}({0})",
    "floor": "floor{f}({0})",
    "ceil": "ceil{f}({0})",
    "trunc": "trunc{f}({0})",
    "round": "rint{f}({0})",
    "sign": "{T}(({0} > {T}(0)) - ({0} < {T}(0)))",
    "sgn": "{T}(({0} > {T}(0)) - ({0} < {T}(0)))",
    "hardsigmoid": "min_of(max_of({0} + {T}(3), {T}(0)), {T}(6)) * {T}(0.16666666666666667)",
    "hardswish": "{0} * (min_of(max_of({0} + {T}(3), {T}(0)), {T}(6)) * {T}(0.16666666666666667))",
    "mish": "{0} * tanh{f}(log1p{f}(exp{f}(-abs_of({0}))) + max_of({0}, {T}(0)))",
    "log_sigmoid": "min_of({0}, {T}(0)) - log1p{f}(exp{f}(-abs_of({0})))",
    "logical_not": "!{0}",
    "special_entr": "{0} != {0} ? {0} : {0} > {T}(0) ? -{0} * log{f}({0}) : {0} == {T}(0) ? {T}(0) : -{T}(INFINITY)",
    "selu": "{0} > {T}(0) ? {T}(1.0507009873554805) * {0}"
    " : {T}(1.0507009873554805 * 1.6732632423543772) * expm1{f}({0})",
}

GELU_ERF = "{T}(0.5) * {0} * ({T}(1) + erf{f}({0} * {T}(0.70710678118654752)))"
GELU_TANH = "{T}(0.5) * {0} * ({T}(1) + tanh{f}({T}(0.79788456080286536) * ({0} + {T}(0.044715) * {0} * {0} * {0})))"
ELU = "{0} > {T}(0) ? {0} * {2} : {1} * {2} * expm1{f}({0} * {3})"
"""Of an element, by alpha, scale and input scale."""
CELU = "{0} > {T}(0) ? {0} : {1} * expm1{f}({0} / {1})"
SOFTPLUS = "{0} * {1} > {2} ? {0} : log1p{f}(exp{f}({0} * {1})) / {1}"
"""Of an element, by beta, up to the threshold."""
LERP = "abs_of({2}) < {T}(0.5) ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * ({T}(1) - {2})"
"""What lies between two numbers by a weight, as PyTorch computes it."""

BINARY: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "rsub": "{1} - {0}",
    "maximum": "max_of({0}, {1})",
    "minimum": "min_of({0}, {1})",
    "atan2": "atan2{f}({0}, {1})",
    "fmax": "fmax{f}({0}, {1})",
    "fmin": "fmin{f}({0}, {1})",
    "hypot": "hypot{f}({0}, {1})",
    "copysign": "copysign{f}({0}, {1})",
    "fmod": "fmod{f}({0}, {1})",
    "remainder": "remainder_of({0}, {1})",
    "floor_divide": "floor_quotient({0}, {1})",
    "heaviside": "{0} == {T}(0) ? {1} : {T}({0} > {T}(0))",
    "xlogy": "{1} == {1} && {0} == {T}(0) ? {T}(0) : {0} * log{f}({1})",
    "special_xlog1py": "{1} == {1} && {0} == {T}(0) ? {T}(0) : {0} * log1p{f}({1})",
    "logaddexp": "isinf({0}) && {0} == {1} ? {0} : max_of({0}, {1}) + log1p{f}(exp{f}(-abs_of({0} - {1})))",
    "logaddexp2": "isinf({0}) && {0} == {1} ? {0}"
    " : max_of({0}, {1}) + {T}(1.4426950408889634) * log1p{f}(exp2{f}(-abs_of({0} - {1})))",
    "gt": "{0} > {1}",
    "lt": "{0} < {1}",
    "ge": "{0} >= {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_xor": "bool({0}) != bool({1})",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_left_shift": "shifted_left({0}, {1})",
    "bitwise_right_shift": "shifted_right({0}, {1})",
}

LEAST = "(-9223372036854775807L - 1)"
GREATEST = "9223372036854775807L"
"""The smallest and the largest whole number, as C++ can write them."""
