"""Quantisation to an 8-bit float with a scale for each row: the row's largest magnitude over the format's largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.serving.matching import Matcher, number
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import ITEMSIZE, Signature

_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_KINDS = {"float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}
_TYPES = ("float32", "float16", "bfloat16")
_LEVELS = (
    ("naive", "one block a row: scalar loads, warp shuffles, division"),
    ("vectorised", "128-bit loads, packed stores, the scale's reciprocal once a row"),
    ("registers", "rows read once with 128-bit loads and kept in registers, block and items tunable"),
)


@dataclass(frozen=True)
class RowScale:
    """max |x| of a row over `largest`, at least `smallest`."""

    given: Node
    node: Node
    largest: float
    smallest: float


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if one output is the scale of each row and the other one the rounded quotient; else nothing."""
    dtypes = [output.dtype for output in signature.outputs]
    at = next((k for k, dtype in enumerate(dtypes) if dtype in _LARGEST), -1)
    if len(dtypes) != 2 or at < 0 or dtypes[1 - at] != "float32":
        return ()
    matcher = Matcher(graph)
    scale = _scale(matcher, Ref(graph.outputs[1 - at]))
    quotient = _quotient(matcher, Ref(graph.outputs[at]), _LARGEST[dtypes[at]])
    if scale is None or quotient != (scale.given, scale.node) or scale.largest != _LARGEST[dtypes[at]]:
        return ()
    if scale.given.dtype not in _TYPES or signature.outputs[at].shape != scale.given.shape:
        return ()
    values = {
        "x": scale.given.name,
        "element": ELEMENT[scale.given.dtype],
        "width": VECTOR_BYTES // ITEMSIZE[scale.given.dtype],
        "kind": _KINDS[dtypes[at]],
        "largest": scale.largest,
        "smallest": f"{scale.smallest!r}f",
        "quantised": signature.outputs[at].name,
        "scales": signature.outputs[1 - at].name,
    }
    return tuple(ServingLevel(name, idea, "quantisation.cu.j2", values) for name, idea in _LEVELS)


def _scale(matcher: Matcher, operand: Operand) -> RowScale | None:
    """Match clamp(amax(|x|, -1, keepdim) / largest, min)."""
    clamped = matcher.call(operand, "clamp", "clamp_min")
    if clamped is None or clamped.argument(2, "max") is not None:
        return None
    smallest, divided = number(clamped.argument(1, "min")), matcher.pair(clamped.args[0], "div")
    largest = number(divided[1]) if divided else None
    reduced = matcher.reduction(divided[0], "amax") if divided else None
    magnitude = matcher.call(reduced.args[0], "abs") if reduced else None
    given = matcher.given(magnitude.args[0]) if magnitude else None
    if given is None or smallest is None or largest is None or smallest <= 0.0:
        return None
    return RowScale(given, clamped, largest, smallest)


def _quotient(matcher: Matcher, operand: Operand, largest: float) -> tuple[Node, Node] | None:
    """Match x / scale, clamped to the format's largest number or not: conversion saturates anyway."""
    clamped = matcher.call(operand, "clamp")
    if clamped is not None:
        if (number(clamped.argument(1, "min")), number(clamped.argument(2, "max"))) != (-largest, largest):
            return None
        operand = clamped.args[0]
    divided = matcher.pair(operand, "div")
    given, scale = (matcher.given(divided[0]), matcher.node(divided[1])) if divided else (None, None)
    return (given, scale) if given is not None and scale is not None else None
