"""Fill operands and types into formulas."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.pointwise.for_halves import for_halves
from cutegen_core.propose.playbook.pointwise.operations import BINARY, LEAST, UNARY

FAST: Mapping[str, str] = {
    UNARY["exp"]: "__expf({0})",
    UNARY["log"]: "__logf({0})",
    UNARY["sigmoid"]: "__fdividef(1.0f, 1.0f + __expf(-{0}))",
    UNARY["silu"]: "__fdividef({0}, 1.0f + __expf(-{0}))",
    UNARY["rsqrt"]: "rsqrtf({0})",
    BINARY["div"]: "__fdividef({0}, {1})",
}
"""Approximate intrinsics of float, for those formulas that have some; a file with them declares fast_math."""

_LEAST = -(2**63)
"""C++ takes its digits for a number of their own, which is too large for 64 bits with a sign."""


def fill(code: str, operands: tuple[str, ...], ctype: str, *, fast: bool = False, half: bool = False) -> str:
    """Return `code` with its operands (names or literals) and the type of its arithmetic filled in.

    Args:
        fast: whether approximate intrinsics of float are allowed.
        half: whether the result is of 16 bits.
    """
    if ctype == "float":
        rough = for_halves(code, operands) if half else code
        code = FAST.get(code, code) if fast and rough == code else rough
    return code.format(*operands, T=ctype, f="f" if ctype == "float" else "")


def literal(number: int | float | bool, ctype: str) -> str:
    """Return a number as C++, in the given arithmetic type."""
    if isinstance(number, bool) or ctype == "bool":
        return "true" if number else "false"
    if ctype == "long":
        if number == _LEAST:
            return LEAST
        return f"{int(number)}L" if number >= 0 else f"({int(number)}L)"
    if number != number or abs(number) == float("inf"):
        return f"{ctype}({'-' if number < 0 else ''}{'INFINITY' if number == number else 'NAN'})"
    text = f"{float(number)!r}{'f' if ctype == 'float' else ''}"
    return f"({text})" if text.startswith("-") else text
