"""Safe expressions: what they compute, what they refuse, and that nothing hostile costs time."""

import contextlib
import math
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.kernel.expressions import MAX_INTEGER, ExpressionError, Scope, parse_expression
from cutegen_core.records.problem import TensorSpec

X = TensorSpec("x", "float16", (4, 6, 8))
SCOPE = Scope({"x": X}, {"n": 1000, "BLOCK": 256, "eps": 1e-5, "sm_count": 132})


def value(text: str) -> int | float:
    return parse_expression(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ceil_div(n, BLOCK * 4)", 1),
        ("ceil_div(n + 25, 1024)", 2),
        ("x.numel", 192),
        ("x.shape[0] * x.stride[0]", 192),
        ("x.shape[-1]", 8),
        ("x.itemsize", 2),
        ("min(n, 5, 7) + max(1, 2)", 7),
        ("round_up(n, 128)", 1024),
        ("log2(1024)", 10),
        ("log2(1025)", 10),
        ("2 ** 10 - 7 // 2 % 2", 1023),
        ("-n + 1", -999),
        ("3 if n % 2 == 0 and BLOCK > 128 else 4", 3),
        ("not (n > 1) or 0 < n <= 1000", 1),
        ("1 // 0 if n == 0 else 5", 5),
        ("n > 0 or 1 // 0", 1),
        ("eps * 2", 2e-5),
        ("True", 1),
    ],
)
def test_values(text: str, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m + 1", "unknown name 'm'"),
        ("BLOK * 2", "did you mean 'BLOCK'"),
        ("x + 1", "'x' is a tensor; say which number is meant"),
        ("y.numel", "'y' is not a tensor of this problem"),
        ("n.numel", "'n' is a number, not a tensor"),
        ("x.shape[3]", "x has 3 dimensions"),
        ("x.shape[0:1]", "takes one index"),
        ("x.data", "after a tensor's name write .numel"),
        ("x.shape", "after a tensor's name write"),
        ("n / 2", "'/' is not allowed: write //"),
        ("n // 0", "division by zero in 'n // 0'"),
        ("n % 0", "division by zero"),
        ("'text'", "is not a number"),
        ("None", "is not a number"),
        ("1j", "is not a number"),
        ("open('/etc/passwd')", "'open' cannot be called"),
        ("__import__('os')", "cannot be called"),
        ("x.numel.__class__", "is not allowed"),
        ("().__class__", "is not allowed"),
        ("lambda: 1", "is not allowed"),
        ("[i for i in n]", "is not allowed"),
        ("n & 1", "is not allowed"),
        ("ceil_div(1)", "ceil_div takes 2 arguments"),
        ("min(1)", "min takes 2 to 16 arguments"),
        ("log2", "is a function: write log2(...)"),
        ("log2(0)", "must be positive"),
        ("(-8) ** 0.5", "not a real number"),
        ("n +", "cannot read the expression"),
        ("n\x00", "cannot read the expression"),
        ("", "cannot read the expression"),
        ("n := 3", "cannot read the expression"),
        ("9 ** 9 ** 9", "the exponent may be at most 64"),
        ("9 ** 64", "does not fit 64 bits"),
        ("n * 99999999999999999999", "does not fit 64 bits"),
        ("1e308 * 10", "a value is inf"),
        ("1e300 ** 2", "too large"),
        ("0 ** -1", "division by zero"),
        ("1" * 1001, "expression of 1001 characters"),
        ("-" * 900 + "1", "too large|cannot read"),
        ("(" * 400 + "1" + ")" * 400, "cannot read the expression"),
        ("+".join(["1"] * 400), "too large"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message if "|" in message else re.escape(message)):
        value(text)


def test_a_size_must_be_whole() -> None:
    with pytest.raises(ExpressionError, match="a whole number is needed"):
        parse_expression("eps * 2").evaluate_integer(SCOPE)


def test_names_and_equality() -> None:
    assert parse_expression("ceil_div(n, BLOCK) + x.shape[n]").names == {"n", "BLOCK", "x"}
    assert parse_expression("n") == parse_expression("n")


def test_hostile_towers_are_quick() -> None:
    started = time.process_time()
    for text in ("9**9**9**9", "2**63**63", "(" * 199 + "1" + ")" * 199, "*".join(["n"] * 299), "1.5**64**2"):
        with contextlib.suppress(ExpressionError):
            value(text)
    assert time.process_time() - started < 0.5


NUMBERS = st.integers(-20, 40).map(str)
ATOMS = NUMBERS | st.sampled_from(["n", "BLOCK", "x.numel", "x.shape[1]", "x.stride[0]", "sm_count"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "**", "<", "==", "and", "or"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        )
        | st.tuples(inner, inner).map(lambda t: f"ceil_div({t[0]}, {t[1]})")
        | st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})")
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
@settings(max_examples=300)
def test_well_formed_ones_are_bounded(text: str) -> None:
    """Whatever can be written evaluates to a 64-bit number or says why not; it never raises anything else."""
    with contextlib.suppress(ExpressionError):
        result = value(text)
        assert abs(result) <= MAX_INTEGER if isinstance(result, int) else math.isfinite(result)


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF), max_size=80))
@settings(max_examples=400)
def test_any_text_is_answered(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        value(text)


TOKENS = [
    "n",
    "x",
    "BLOCK",
    ".",
    "numel",
    "shape",
    "[",
    "]",
    "(",
    ")",
    "+",
    "**",
    "//",
    "0",
    "1",
    "if",
    "else",
    ",",
    "min",
]
TOKENS += ["not", "and", "lambda", ":", "=", "'", "{"]


@given(st.lists(st.sampled_from(TOKENS)))
@settings(max_examples=400)
def test_any_mix_of_tokens_is_answered(tokens: list[str]) -> None:
    with contextlib.suppress(ExpressionError):
        value(" ".join(tokens))
