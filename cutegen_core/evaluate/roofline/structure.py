"""What a graph's tensors always look like: zero outside a triangle or a diagonal, or holding many zeros.

Walked forward from `triu`, `tril`, `diag` and from what was seen in the inputs (`InputFacts`).
"""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.evaluate.roofline import operations as ops
from cutegen_core.evaluate.roofline.operations import tensor
from cutegen_core.evaluate.roofline.regions import Shape, Triangle
from cutegen_core.records.graph import Graph, InputFacts, Node

Zeros = Mapping[str, str]

TRIANGLES = {"upper": Triangle(lower=False), "lower": Triangle(lower=True)}
_KEEPS_ZEROS = ops.words("relu abs neg dropout sqrt square tanh sin sign mul div") | ops.COPIES
_SHOWS = ops.COPIES | ops.RESHAPES | ops.PERMUTES | ops.words("unsqueeze squeeze expand expand_as slice select getitem")


def zeros(graph: Graph, facts: Mapping[str, InputFacts]) -> Zeros:
    """Node -> "upper", "lower" or "diagonal", where only that part may differ from zero."""
    found: dict[str, str] = {}
    nodes = ops.by_name(graph)
    for node in graph.nodes:
        kind = _nonzero_of(node, found, facts, nodes)
        if kind:
            found[node.name] = kind
    return found


def sparse(graph: Graph, facts: Mapping[str, InputFacts]) -> frozenset[str]:
    """Nodes that show an input with many zeros, or truth values: what they are multiplied with may be skipped."""
    found: set[str] = set()
    for node in graph.nodes:
        if ops.name(node) == "input":
            if node.name in facts and facts[node.name].sparse:
                found.add(node.name)
        elif node.dtype == "bool" or (ops.name(node) in _SHOWS and tensor(node, 0) in found):
            found.add(node.name)
    return frozenset(found)


def _nonzero_of(node: Node, found: Zeros, facts: Mapping[str, InputFacts], nodes: Mapping[str, Node]) -> str:
    operation = ops.name(node)
    if operation == "input":
        return facts[node.name].nonzero if node.name in facts else ""
    first = found.get(tensor(node, 0), "")
    if operation in ("triu", "tril"):
        own = "upper" if operation == "triu" else "lower"
        exact = ops.number(node, 1, "diagonal", 0) == 0
        return "diagonal" if first not in ("", own) and exact else own if exact else first
    if operation in ("diag", "diag_embed") and len(nodes[tensor(node, 0)].shape) < len(node.shape):
        return "diagonal"
    if operation in ops.PERMUTES and _swaps_last_two(node, nodes):
        return {"upper": "lower", "lower": "upper"}.get(first, first)
    if operation in ("matmul", "mm", "bmm"):
        second = found.get(tensor(node, 1), "")
        return first if first == second else second if first == "diagonal" else first if second == "diagonal" else ""
    if operation in _KEEPS_ZEROS and nodes[tensor(node, 0)].shape == node.shape:
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
    """Where each dimension of the operand goes; the identity for an operation that is no permutation."""
    operation, rank = ops.name(node), len(shape)
    order = list(range(rank))
    if operation in ("t", "numpy_T", "matrix_H", "adjoint", "mT") and rank >= 2:
        if operation == "numpy_T":
            order.reverse()
        else:
            order[-1], order[-2] = order[-2], order[-1]
    elif operation in ("transpose", "swapaxes"):
        a, b = ops.number(node, 1, "dim0", 0) % rank, ops.number(node, 2, "dim1", 0) % rank
        order[a], order[b] = order[b], order[a]
    elif operation == "permute":
        sources = [d % rank for d in ops.numbers(ops.argument(node, 1, "dims"), rank, 0)]
        order = [sources.index(k) for k in range(rank)]
    return tuple(order)
