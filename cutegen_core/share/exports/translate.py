"""Launch-plan expressions as Python and as C++, with the meaning `expressions` gives them.

A plan's expressions are Python already but for one thing: `and`, `or`, `not` and comparisons give 1 or 0 there. C++
divides and takes remainders differently too, so those go through the helpers of `HELPERS_CPP` and `HELPERS_PYTHON`.
"""

from __future__ import annotations

import ast

from cutegen_core.kernel.expressions import Expression

HELPERS_PYTHON = '''\
def cutegen_ceil_div(a, b):
    return -(-a // b)


def cutegen_round_up(a, b):
    return cutegen_ceil_div(a, b) * b


def cutegen_log2(a):
    """Floor of the binary logarithm."""
    return a.bit_length() - 1 if isinstance(a, int) else math.floor(math.log2(a))


def cutegen_truth(a):
    return int(bool(a))
'''

HELPERS_CPP = """\
// Arithmetic of the launch plan: whole numbers are 64-bit, division rounds down, a remainder has the divisor's sign.
template <class A, class B>
auto floor_div(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_integral_v<T>) {
    return T(a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0));
  } else {
    return T(std::floor(T(a) / T(b)));
  }
}
template <class A, class B>
auto modulo(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(T(a) - T(floor_div(T(a), T(b))) * T(b));
}
template <class A, class B>
auto power(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_integral_v<T>) {
    T result = 1;
    for (T i = 0; i < T(b); ++i) result *= T(a);
    return result;
  } else {
    return T(std::pow(T(a), T(b)));
  }
}
template <class A, class B>
auto ceil_div(A a, B b) {
  return -floor_div(-a, b);
}
template <class A, class B>
auto round_up(A a, B b) {
  return ceil_div(a, b) * b;
}
template <class A>
std::int64_t log2(A a) {
  return std::int64_t(std::floor(std::log2(static_cast<long double>(a))));
}
template <class A, class... B>
auto least(A a, B... b) {
  std::common_type_t<A, B...> result = a;
  ((result = b < result ? b : result), ...);
  return result;
}
template <class A, class... B>
auto greatest(A a, B... b) {
  std::common_type_t<A, B...> result = a;
  ((result = b > result ? b : result), ...);
  return result;
}
"""
"""Needs <cmath>, <cstdint> and <type_traits>."""

_FUNCTIONS_CPP = {"min": "least", "max": "greatest"}
_BINARY_CPP = {ast.FloorDiv: "floor_div", ast.Mod: "modulo", ast.Pow: "power"}
_INFIX_CPP = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARE_CPP = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def to_python(expression: Expression, *, condition: bool = False) -> str:
    """Return the expression as Python that needs `HELPERS_PYTHON`; tensors have numel, itemsize, shape[i], stride[i].

    Args:
        condition: only its truth matters, so logical results may stay as Python gives them.
    """
    return ast.unparse(_python(expression.tree, condition))


def to_cpp(expression: Expression, *, condition: bool = False) -> str:
    """Return the expression as C++17 over `HELPERS_CPP` in namespace cutegen and a tensor type with numel(), shape(i),
    stride(i) and itemsize()."""
    return _cpp(expression.tree, condition)


def _python(node: ast.expr, condition: bool = False) -> ast.expr:
    match node:
        case ast.BoolOp(op, values):
            return _truth(ast.BoolOp(op, [_python(v, True) for v in values]), condition)
        case ast.Compare(left, ops, comparators):
            return _truth(ast.Compare(_python(left), ops, [_python(c) for c in comparators]), condition)
        case ast.UnaryOp(ast.Not() as op, operand):
            return _truth(ast.UnaryOp(op, _python(operand, True)), condition)
        case ast.UnaryOp(op, operand):
            return ast.UnaryOp(op, _python(operand))
        case ast.BinOp(left, operator, right):
            return ast.BinOp(_python(left), operator, _python(right))
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(_python(test, True), _python(body, condition), _python(orelse, condition))
        case ast.Call(ast.Name(name), arguments):
            own = name if name in ("min", "max") else f"cutegen_{name}"
            return ast.Call(ast.Name(own), [_python(a) for a in arguments], [])
        case ast.Subscript(value, index):
            return ast.Subscript(value, _python(index))
    return node


def _truth(node: ast.expr, condition: bool) -> ast.expr:
    return node if condition else ast.Call(ast.Name("cutegen_truth"), [node], [])


def _cpp(node: ast.expr, condition: bool = False) -> str:
    match node:
        case ast.Constant(bool() | int() as value):
            return f"{int(value)}ll"
        case ast.Constant(float() as value):
            return repr(value)
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(name), fact):
            return f"{name}.{fact}()"
        case ast.Subscript(ast.Attribute(ast.Name(name), fact), index):
            return f"{name}.{fact}({_cpp(index)})"
        case ast.Call(ast.Name(name), arguments):
            return f"cutegen::{_FUNCTIONS_CPP.get(name, name)}({', '.join(_cpp(a) for a in arguments)})"
        case ast.BinOp(left, op, right) if type(op) in _BINARY_CPP:
            return f"cutegen::{_BINARY_CPP[type(op)]}({_cpp(left)}, {_cpp(right)})"
        case ast.BinOp(left, op, right):
            return f"({_cpp(left)} {_INFIX_CPP[type(op)]} {_cpp(right)})"
        case ast.UnaryOp(ast.USub() | ast.UAdd() as op, operand):
            return f"({'-' if isinstance(op, ast.USub) else '+'}{_cpp(operand)})"
        case ast.IfExp(test, body, orelse):
            return f"({_cpp(test, True)} ? {_cpp(body)} : {_cpp(orelse)})"
    logical = _cpp_logical(node)
    return logical if condition else f"std::int64_t({logical})"


def _cpp_logical(node: ast.expr) -> str:
    match node:
        case ast.UnaryOp(ast.Not(), operand):
            return f"!({_cpp(operand, True)})"
        case ast.BoolOp(op, values):
            return (" && " if isinstance(op, ast.And) else " || ").join(f"({_cpp(v, True)})" for v in values)
        case ast.Compare(left, ops, comparators):
            operands = [_cpp(left), *(_cpp(c) for c in comparators)]
            pairs = zip(operands, ops, operands[1:], strict=False)
            return " && ".join(f"({a} {_COMPARE_CPP[type(op)]} {b})" for a, op, b in pairs)
    raise AssertionError(f"expressions let {type(node).__name__} through")
