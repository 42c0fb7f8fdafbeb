"""Evaluate the arithmetic of launch plans safely: `ceil_div(n, BLOCK * 4)`.

1. `parse_expression` reads the text with Python's grammar and admits only the nodes listed here.
2. `Expression.evaluate` walks the tree over a `Scope` of tensors and numbers; it compiles no code and calls only the
   functions listed here.
Text, tree and every intermediate value are limited in size, so a hostile expression costs microseconds.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Protocol

from cutegen_core.machine.python_text import parse_python_expression
from cutegen_core.records.errors import CutegenError

Number = int | float

MAX_TEXT = 1000
MAX_NODES = 300
MAX_DEPTH = 40
MAX_INTEGER = 2**63 - 1


class ExpressionError(CutegenError):
    """The expression is malformed, contains an unknown name, or leaves the 64-bit range."""


class ExpressionTooLargeError(ExpressionError):
    """An expression is longer than one may be."""


class TensorFacts(Protocol):
    """The properties of a tensor that an expression may use (`TensorSpec` has them)."""

    @property
    def numel(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def stride(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Scope:
    """The meaning of the names in an expression. A number hides a tensor of the same name."""

    tensors: Mapping[str, TensorFacts] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def find_number(self, name: str) -> Number:
        """Return the number of this name; ExpressionError, with the nearest known name, where there is none."""
        if name in self.numbers:
            return self.numbers[name]
        if name in self.tensors:
            raise ExpressionError(f"'{name}' is a tensor; say which number is meant: {name}.numel or {name}.shape[0]")
        raise ExpressionError(f"unknown name '{name}'{suggest_name(name, [*self.numbers, *self.tensors])}")

    def find_tensor(self, name: str) -> TensorFacts:
        """Return the facts of the tensor of this name; ExpressionError, with the nearest one, where there is none."""
        if name in self.tensors:
            return self.tensors[name]
        kind = "is a number, not a tensor" if name in self.numbers else "is not a tensor of this problem"
        raise ExpressionError(f"'{name}' {kind}{suggest_name(name, self.tensors)}")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?", or the known names in parentheses if none is similar."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f" (known: {', '.join(names[:20])})" if names else ""


def _ceil_div(a: Number, b: Number) -> Number:
    return -(-a // b)


def _round_up(a: Number, b: Number) -> Number:
    return _ceil_div(a, b) * b


def _log2(a: Number) -> Number:
    """Return the floor of the binary logarithm, exact for integers."""
    if a <= 0:
        raise ExpressionError(f"log2({a}): the argument must be positive")
    return a.bit_length() - 1 if isinstance(a, int) else math.floor(math.log2(a))


def _power(a: Number, b: Number) -> Number:
    if abs(b) > 64 and abs(a) not in (0, 1):
        raise ExpressionError(f"{a} ** {b}: the exponent may be at most 64")
    result = a**b
    if isinstance(result, complex):
        raise ExpressionError(f"{a} ** {b} is not a real number")
    return float(result) if isinstance(result, float) else int(result)


FUNCTIONS: Mapping[str, tuple[Callable[..., Number], int, int]] = {
    "ceil_div": (_ceil_div, 2, 2), "round_up": (_round_up, 2, 2), "log2": (_log2, 1, 1),
    "min": (min, 2, 16), "max": (max, 2, 16),
}  # fmt: skip

_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power,
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: lambda a: int(not a),
}  # fmt: skip
_SCALAR_FACTS = ("numel", "itemsize")
_INDEXED_FACTS = ("shape", "stride")


@dataclass(frozen=True)
class Expression:
    """A checked expression; expressions with the same text are equal."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)

    @property
    def names(self) -> frozenset[str]:
        """Every name in the expression except functions."""
        return frozenset(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id not in FUNCTIONS)

    def evaluate(self, scope: Scope) -> Number:
        """Return the value. Raise ExpressionError for unknown names, division by zero and values beyond 64 bits."""
        return _evaluate(self.tree, scope)

    def evaluate_integer(self, scope: Scope) -> int:
        """Return the value as an integer; a float, even 2.0, raises ExpressionError."""
        value = self.evaluate(scope)
        if not isinstance(value, int):
            raise ExpressionError(f"'{self.text}' is {value}, but a whole number is needed here")
        return value


def parse_expression(text: str) -> Expression:
    """Parse and check one expression. The text of its ExpressionError names what is forbidden and what is allowed."""
    if len(text) > MAX_TEXT:
        raise ExpressionTooLargeError(f"expression of {len(text)} characters (at most {MAX_TEXT})")
    try:
        tree = parse_python_expression(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "too deeply nested or not text"
        raise ExpressionError(f"cannot read the expression '{text[:80]}': {reason}") from error
    _check_size(tree)
    _check_node(tree)
    return Expression(text, tree)


def _check_size(tree: ast.expr) -> None:
    # Breadth first without recursion, so that a deep tree cannot exhaust Python's stack.
    level: list[ast.AST] = [tree]
    depth = nodes = 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > 2 * MAX_DEPTH or nodes > MAX_NODES:
            raise ExpressionTooLargeError(
                f"the expression is too large (at most {MAX_NODES} parts, {MAX_DEPTH} levels)"
            )
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _check_node(node: ast.expr) -> None:
    """Raise ExpressionError unless every node is on the allow-list."""
    if isinstance(node, ast.Constant):
        _check_constant(node)
    elif isinstance(node, ast.Call):
        _check_call(node)
    elif isinstance(node, ast.Attribute | ast.Subscript):
        _check_fact(node)
    elif isinstance(node, ast.Name):
        if node.id in FUNCTIONS:
            raise ExpressionError(f"'{node.id}' is a function: write {node.id}(...)")
    else:
        for child in _operands(node):
            _check_node(child)


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return [left, right]
        case ast.UnaryOp(op, operand) if type(op) in _UNARY:
            return [operand]
        case ast.BoolOp(_, values):
            return values
        case ast.Compare(left, ops, comparators) if all(type(op) in _COMPARE for op in ops):
            return [left, *comparators]
        case ast.IfExp(test, body, orelse):
            return [test, body, orelse]
        case ast.BinOp(_, ast.Div(), _):
            raise ExpressionError("'/' is not allowed: write // for whole numbers or ceil_div(a, b)")
    raise ExpressionError(f"'{ast.unparse(node)[:60]}' is not allowed: {_ALLOWED}")


_ALLOWED = (
    "use + - * // % **, comparisons, and / or / not, 'x if c else y', " + ", ".join(sorted(FUNCTIONS))
    + ", numbers, names, and a tensor's .numel .itemsize .shape[i] .stride[i]"
)  # fmt: skip


def _check_constant(node: ast.Constant) -> None:
    if not isinstance(node.value, int | float):
        raise ExpressionError(f"{node.value!r:.40} is not a number: expressions hold numbers only")
    _check_range(node.value)


def _check_call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        raise ExpressionError(f"'{ast.unparse(node.func)[:40]}' cannot be called: use {', '.join(sorted(FUNCTIONS))}")
    _, least, most = FUNCTIONS[node.func.id]
    if node.keywords or not least <= len(node.args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ExpressionError(f"{node.func.id} takes {wanted} arguments")
    for argument in node.args:
        _check_node(argument)


def _check_fact(node: ast.Attribute | ast.Subscript) -> None:
    match node:
        case ast.Attribute(ast.Name(), attr) if attr in _SCALAR_FACTS:
            return
        case ast.Subscript(ast.Attribute(ast.Name(), attr), index) if attr in _INDEXED_FACTS:
            if isinstance(index, ast.Slice | ast.Tuple):
                raise ExpressionError(f".{attr}[i] takes one index")
            return _check_node(index)
    known = " or ".join([f".{f}" for f in _SCALAR_FACTS] + [f".{f}[i]" for f in _INDEXED_FACTS])
    raise ExpressionError(f"'{ast.unparse(node)[:60]}' is not allowed: after a tensor's name write {known}")


def _evaluate(node: ast.expr, scope: Scope) -> Number:
    match node:
        case ast.Constant(int() | float() as value):
            return int(value) if isinstance(value, bool) else value
        case ast.Name(name):
            return _check_range(scope.find_number(name))
        case ast.Attribute(ast.Name(name), fact):
            return int(getattr(scope.find_tensor(name), fact))
        case ast.Subscript(ast.Attribute(ast.Name(name), fact), index):
            return _read_index(name, fact, _evaluate(index, scope), scope)
        case ast.Call(ast.Name(name), arguments):
            function = FUNCTIONS[name][0]
            return _compute(lambda: function(*[_evaluate(a, scope) for a in arguments]), node)
        case ast.BinOp(left, binary, right):
            a, b = _evaluate(left, scope), _evaluate(right, scope)
            return _compute(lambda: _BINARY[type(binary)](a, b), node)
        case ast.UnaryOp(unary, operand):
            return _check_range(_UNARY[type(unary)](_evaluate(operand, scope)))
        case ast.IfExp(test, body, orelse):
            return _evaluate(body if _evaluate(test, scope) else orelse, scope)
    return _evaluate_condition(node, scope)


def _evaluate_condition(node: ast.expr, scope: Scope) -> int:
    """Evaluate a comparison, `and` or `or` to 1 or 0, from the left, and stop as soon as the result is known."""
    match node:
        case ast.BoolOp(ast.And(), values):
            return int(all(_evaluate(v, scope) for v in values))
        case ast.BoolOp(_, values):
            return int(any(_evaluate(v, scope) for v in values))
        case ast.Compare(left, ops, comparators):
            a = _evaluate(left, scope)
            for op, comparator in zip(ops, comparators, strict=True):
                b = _evaluate(comparator, scope)
                if not _COMPARE[type(op)](a, b):
                    return 0
                a = b
            return 1
    raise AssertionError(f"parse_expression let {type(node).__name__} through")


def _read_index(name: str, fact: str, index: Number, scope: Scope) -> int:
    values: tuple[int, ...] = getattr(scope.find_tensor(name), fact)
    if not isinstance(index, int) or not -len(values) <= index < len(values):
        raise ExpressionError(f"{name}.{fact}[{index}]: {name} has {len(values)} dimensions, {fact} {values}")
    return values[index]


def _compute(compute: Callable[[], Number], node: ast.expr) -> Number:
    try:
        return _check_range(compute())
    except ZeroDivisionError as error:
        raise ExpressionError(f"division by zero in '{ast.unparse(node)[:80]}'") from error
    except OverflowError as error:
        raise ExpressionError(f"'{ast.unparse(node)[:80]}' is too large for a number") from error


def _check_range(value: Number) -> Number:
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ExpressionError("a value does not fit 64 bits")
        return int(value)
    if not math.isfinite(value):
        raise ExpressionError(f"a value is {value}")
    return value
