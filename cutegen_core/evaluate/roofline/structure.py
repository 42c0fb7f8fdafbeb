"""Find what a graph's tensors always look like: zero outside a triangle or a diagonal, or holding many zeros.

Walked forward from `triu`, `tril`, `diag` and from what was seen in the inputs (`InputFacts`).
"""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.evaluate.roofline.operands import by_name, number, numbers, tensor
from cutegen_core.evaluate.roofline.regions import Shape, Triangle
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, InputFacts, Node
from cutegen_core.records.operations import Flow

Zeros = Mapping[str, str]

TRIANGLES = {"upper": Triangle(lower=False), "lower": Triangle(lower=True)}
_SHOWS = ops.VIEWS | {Flow.COPY, Flow.MOVE, Flow.DIAGONAL, Flow.TRIANGLE, Flow.JOIN}
"""Flows whose result has the zeros of their operand, wherever they may be then."""


def zeros(graph: Graph, facts: Mapping[str, InputFacts]) -> Zeros:
    """Return node -> "upper", "lower" or "diagonal", for nodes in which only that part may differ from zero."""
    found: dict[str, str] = {}
    nodes = by_name(graph)
    for node in graph.nodes:
        kind = _nonzero_of(node, found, facts, nodes)
        if kind:
            found[node.name] = kind
    return found


def sparse(graph: Graph, facts: Mapping[str, InputFacts]) -> frozenset[str]:
    """Return nodes that are or show an input with many zeros, truth values, or zeros by construction: what they are
    multiplied with may be skipped."""
    found: set[str] = set()
    for node in graph.nodes:
        traits = ops.traits(node)
        if traits.flow is Flow.INPUT:
            if node.name in facts and facts[node.name].sparse:
                found.add(node.name)
        elif node.dtype == "bool" or traits.sparse or (traits.flow in _SHOWS and _any_shown(node, found)):
            found.add(node.name)
    return frozenset(found)


def _any_shown(node: Node, found: set[str]) -> bool:
    """Return whether the operand that a node shows is one of these; any of them if it joins several."""
    shown = list(node.operands())
    return any(name in found for name in (shown if ops.traits(node).flow is Flow.JOIN else shown[:1]))


def _nonzero_of(node: Node, found: Zeros, facts: Mapping[str, InputFacts], nodes: Mapping[str, Node]) -> str:
    operation, traits = ops.name(node), ops.traits(node)
    if traits.flow is Flow.INPUT:
        return facts[node.name].nonzero if node.name in facts else ""
    source = tensor(node, traits.at)
    first = found.get(source, "")
    if traits.flow is Flow.TRIANGLE:
        own = "upper" if operation == "triu" else "lower"
        exact = number(node, 1, "diagonal", 0) == 0
        return "diagonal" if first not in ("", own) and exact else own if exact else first
    if traits.flow is Flow.DIAGONAL and len(nodes[tensor(node, 0)].shape) < len(node.shape):
        return "diagonal"
    if traits.flow is Flow.PERMUTE and _swaps_last_two(node, nodes):
        return {"upper": "lower", "lower": "upper"}.get(first, first)
    if operation in ("matmul", "mm", "bmm"):
        second = found.get(tensor(node, 1), "")
        return first if first == second else second if first == "diagonal" else first if second == "diagonal" else ""
    if traits.keeps_zeros and source and nodes[source].shape == node.shape:
        second = tensor(node, 1)
        aligned = operation == "mul" and second and nodes[second].shape[-2:] == node.shape[-2:]
        return first or (found.get(second, "") if aligned else "")
    if operation == "mul" and tensor(node, 1) and nodes[tensor(node, 1)].shape == node.shape:
        return found.get(tensor(node, 1), "")
    return ""


def _swaps_last_two(node: Node, nodes: Mapping[str, Node]) -> bool:
    rank = len(node.shape)
    order = permutation(node, nodes[tensor(node, 0)].shape)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


def permutation(node: Node, shape: Shape) -> tuple[int, ...]:
    """Return where each dimension of the operand goes; the identity for an operation that is no permutation."""
    operation, rank = ops.name(node), len(shape)
    order = list(range(rank))
    if operation == "numpy_T":
        order.reverse()
    elif operation in ("t", "mT", "mH", "matrix_H", "adjoint") and rank >= 2:
        order[-1], order[-2] = order[-2], order[-1]
    elif operation == "transpose":
        a, b = number(node, 1, "dim0", 0) % rank, number(node, 2, "dim1", 0) % rank
        order[a], order[b] = order[b], order[a]
    elif operation == "permute":
        sources = [d % rank for d in numbers(node.argument(1, "dims"), rank, 0)]
        order = [sources.index(k) for k in range(rank)]
    elif operation == "movedim":
        order = _moved(rank, *(numbers(node.argument(k), 1, 0) for k in (1, 2)))
    return tuple(order)


def _moved(rank: int, sources: Shape, targets: Shape) -> list[int]:
    """Return where each dimension goes if `sources` are put at `targets` and the others fill up in their order."""
    placed = {s % rank: t % rank for s, t in zip(sources, targets, strict=True)}
    free = iter(place for place in range(rank) if place not in placed.values())
    return [placed[dim] if dim in placed else next(free) for dim in range(rank)]
