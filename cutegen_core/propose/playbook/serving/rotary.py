"""Rotary embedding: halves of each head rotated by the angle of the token's position, for one tensor or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import ITEMSIZE, Signature

_TYPES = ("float32", "float16", "bfloat16")
_LEVELS = (
    ("naive", "one thread, one pair of a head"),
    ("vectorised", "128-bit loads and stores of both halves, cosines and sines as vectors"),
    ("hoisted", "a thread keeps its cosines and sines for several heads of a token, loads ahead of arithmetic"),
)


@dataclass(frozen=True)
class Rotation:
    """One tensor, its result's position among the outputs, and what turns it."""

    given: Node
    cache: Node
    positions: Node


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if every output is a rotated input, all by the same angles; else nothing."""
    matcher = Matcher(graph)
    found = [_rotation(matcher, name) for name in graph.outputs]
    turned = [one for one in found if one is not None]
    if not turned or len(turned) < len(found) or not 1 <= len(turned) <= 2:
        return ()
    first = turned[0]
    same = all(
        (r.cache, r.positions, r.given.dtype) == (first.cache, first.positions, first.given.dtype) for r in turned
    )
    if not same or len({r.given.name for r in turned}) < len(turned) or not _fits(turned, signature):
        return ()
    values = _values(turned, [output.name for output in signature.outputs])
    return tuple(ServingLevel(name, idea, "rotary.cu.j2", values) for name, idea in _LEVELS)


def _values(turned: Sequence[Rotation], outputs: Sequence[str]) -> Mapping[str, object]:
    first, inputs, many = turned[0], [r.given.name for r in turned], range(len(turned))
    element = ELEMENT[first.given.dtype]
    position = "long long" if first.positions.dtype == "int64" else "int"
    sizes = [
        f"{inputs[0]}.shape[0]",
        *(f"{name}.shape[1]" for name in inputs),
        f"{inputs[0]}.shape[2] // 2",
        f"{first.cache.name}.shape[0]",
    ]
    arguments = [first.positions.name, first.cache.name, *inputs, *outputs, *sizes]
    pointers = [*(f"{element} const* x{k}" for k in many), *(f"{element}* y{k}" for k in many)]
    numbers = ["int tokens", *(f"int heads{k}" for k in many), "int half_size", "int angle_rows"]
    names = [
        *(f"x{k}" for k in many),
        *(f"y{k}" for k in many),
        "tokens",
        *(f"heads{k}" for k in many),
        "half_size",
        "angle_rows",
    ]
    return {
        "element": element,
        "width": VECTOR_BYTES // ITEMSIZE[first.given.dtype],
        "x": inputs[0],
        "inputs": inputs,
        "plan_heads": " + ".join(f"{name}.shape[1]" for name in inputs),
        "all_heads": "heads0" if len(turned) == 1 else "(heads0 + heads1)",
        "arguments": ", ".join(f'"{argument}"' for argument in arguments),
        "parameters": "\n    ".join(
            ("", f"{position} const* positions, float const* angles, {', '.join(pointers)},", ", ".join(numbers))
        ),
        "passed": ", ".join(["positions", "angles", *names]),
    }


def _rotation(matcher: Matcher, output: str) -> Rotation | None:
    """Match cat(x0 * cos - x1 * sin, x1 * cos + x0 * sin) of the halves x0 and x1."""
    cat = matcher.call(Ref(output), "cat")
    parts = cat.args[0] if cat else ()
    dim = cat.argument(1, "dim") if cat else None
    if cat is None or not isinstance(parts, tuple) or len(parts) != 2 or dim not in (-1, len(cat.shape) - 1):
        return None
    minus, plus = matcher.pair(parts[0], "sub"), matcher.pair(parts[1], "add")
    if minus is None or plus is None:
        return None
    products = [_product(matcher, operand) for operand in (*minus, *plus)]
    known = [p for p in products if p is not None]
    if len(known) < 4 or len({(p.given.name, p.cache.name, p.positions.name) for p in known}) != 1:
        return None
    signs = [(p.x_half, p.angle_half) for p in known]
    right = signs[:2] == [(0, 0), (1, 1)] and sorted(signs[2:]) == [(0, 1), (1, 0)]
    return Rotation(known[0].given, known[0].cache, known[0].positions) if right else None


@dataclass(frozen=True)
class _TurnedHalf:
    """A half of a tensor times the cosines (0) or the sines (1)."""

    given: Node
    x_half: int
    cache: Node
    positions: Node
    angle_half: int


def _product(matcher: Matcher, operand: Operand) -> _TurnedHalf | None:
    operands = matcher.pair(operand, "mul")
    for x, angle in (operands, operands[::-1]) if operands else ():
        left, right = matcher.half(x), matcher.half(angle)
        rows = _rows(matcher, right.of) if right else None
        if left is not None and right is not None and rows is not None and left.of.op == "input":
            return _TurnedHalf(left.of, left.index, *rows, right.index)
    return None


def _rows(matcher: Matcher, angles: Node) -> tuple[Node, Node] | None:
    """Return table and positions of table[positions], a dimension for the heads inserted."""
    if angles.op != "aten.unsqueeze" or angles.argument(1, "dim") not in (1, -2):
        return None
    inner = matcher.node(angles.args[0])
    if inner is None or inner.op != "aten.index":
        return None
    indices = inner.args[1]
    places = indices[0] if isinstance(indices, tuple) and len(indices) == 1 else indices
    table, positions = matcher.given(inner.args[0]), matcher.given(places)
    return None if table is None or positions is None else (table, positions)


def _fits(turned: Sequence[Rotation], signature: Signature) -> bool:
    first = turned[0]
    shapes = [r.given.shape for r in turned]
    return (
        all(len(s) == 3 and s[0] == shapes[0][0] and s[2] == shapes[0][2] for s in shapes)
        and first.cache.dtype == "float32"
        and first.cache.shape[1:] == (shapes[0][2],)
        and first.positions.dtype in ("int64", "int32")
        and first.positions.shape == shapes[0][:1]
        and first.given.dtype in _TYPES
        and [(o.dtype, o.shape) for o in signature.outputs] == [(r.given.dtype, r.given.shape) for r in turned]
    )
