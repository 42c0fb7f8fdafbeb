"""Triangles: what `triu` and `tril` keep, and which tiles of a product that leaves to compute."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.propose.playbook.values import Compute, Constant, Move, Value, compute, constant, position, walk

_CODE = "{0} ? {1} : {T}(0)"
_KEPT = {comparison: f"{{1}} - {{0}} {comparison} {{2}}" for comparison in (">=", "<=", "==")}


@dataclass(frozen=True)
class KeptTriangle:
    """Elements whose column minus row compares so with `first` are kept, the others are zero."""

    comparison: str
    first: int

    @property
    def upper(self) -> bool:
        return self.comparison == ">="

    def reached(self, row: str, column: str, rows: str, columns: str) -> str:
        """Return in C++ whether it keeps anything of a tile that begins at (row, column)."""
        if self.upper:
            return f"{column} + {columns} - 1 - {row} >= {self.first}"
        return f"{column} - {row} - {rows} + 1 <= {self.first}"


def triangle(x: Value, comparison: str, first: float) -> Value:
    """Return `x` with zeros where column - row does not compare so ("==": a diagonal) with `first`."""
    row, column = position(x.dims, -2), position(x.dims, -1)
    kept = compute(_KEPT[comparison], row, column, constant(first, row.dtype), dtype="bool")
    return compute(_CODE, kept, x, dtype=x.dtype)


def kept_of(value: Value, inner: Value) -> KeptTriangle | None:
    """Return the triangle outside of which `value`, of which `inner` is a part, does not depend on `inner`."""
    while isinstance(value, Compute):
        found = _triangle_of(value)
        if found is not None and found.comparison != "==":
            return found
        ways = [operand for operand in value.operands if _has(operand, inner)]
        if len(ways) != 1 or ways[0].sizes != value.sizes:
            return None
        value = ways[0]
    return None


def has_zeros(value: Value) -> bool:
    """Return whether an operand is a triangle, or a diagonal, of something."""
    while isinstance(value, Move):
        value = value.operand
    return isinstance(value, Compute) and _triangle_of(value) is not None


def _triangle_of(value: Compute) -> KeptTriangle | None:
    if value.code != _CODE or not isinstance(value.operands[0], Compute):
        return None
    kept = value.operands[0]
    comparison = next((word for word, code in _KEPT.items() if code == kept.code), None)
    first = kept.operands[2] if comparison else None
    return KeptTriangle(comparison, int(first.number)) if comparison and isinstance(first, Constant) else None


def _has(value: Value, inner: Value) -> bool:
    return any(part is inner for part in walk(value, Compute, Move))
