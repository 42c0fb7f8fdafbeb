"""Look through a traced graph for a shape of computation: operations by name, casts and views of no matter skipped."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Operand, Ref

_CASTS = ("to", "float", "contiguous", "type_as", "clone")
_HELD_BY = {
    "float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",),
    "float8_e4m3fn": ("float16", "bfloat16", "float32", "float64"),
    "float8_e5m2": ("float16", "bfloat16", "float32", "float64"), "int32": ("int64", "float64"),
}  # fmt: skip
"""Dtype -> those that have each of its numbers."""


@dataclass(frozen=True)
class Half:
    """One of two halves of a value along its last dimension; `index` 0 or 1."""

    of: Node
    index: int


class Matcher:
    """Answers what an operand is; None where it is something else."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._outputs = set(graph.outputs)

    def node(self, operand: Operand) -> Node | None:
        """Return the node behind an operand; copies are skipped, and casts that keep every number or store an
        output."""
        node = self._nodes.get(operand.node) if isinstance(operand, Ref) else None
        while node is not None and ops.name(node) in _CASTS:
            first = node.argument(0)
            source = self._nodes.get(first.node) if isinstance(first, Ref) else None
            if source is not None and not self._keeps(source, node):
                return node
            node = source
        return node

    def _keeps(self, source: Node, cast: Node) -> bool:
        same = source.dtype == cast.dtype or cast.dtype in _HELD_BY.get(source.dtype, ())
        return same or cast.name in self._outputs

    def call(self, operand: Operand, *names: str) -> Node | None:
        """Return the node if it is one of these operations."""
        node = self.node(operand)
        return node if node is not None and node.op != "input" and ops.name(node) in names else None

    def given(self, operand: Operand) -> Node | None:
        """Return the node if it is an input."""
        node = self.node(operand)
        return node if node is not None and node.op == "input" else None

    def pair(self, operand: Operand, name: str) -> tuple[Operand, Operand] | None:
        """Return both operands of an operation of two, without further arguments."""
        node = self.call(operand, name)
        if node is None or len(node.args) != 2 or not set(node.kwargs) <= {"alpha"} or node.kwargs.get("alpha", 1) != 1:
            return None
        return node.args[0], node.args[1]

    def half(self, operand: Operand) -> Half | None:
        """Return which half of the last dimension of what this is."""
        item = self.node(operand)
        if item is None or item.op != "getitem" or item.args[1] not in (0, 1):
            return None
        chunk = self.call(item.args[0], "chunk")
        if chunk is None or not is_last(chunk, 2):
            return None
        source = self.node(chunk.args[0])
        halved = chunk.argument(1, "chunks") == 2 and source is not None and source.shape[-1] == 2 * item.shape[-1]
        return Half(source, int(item.args[1])) if halved and source is not None else None

    def reduction(self, operand: Operand, name: str) -> Node | None:
        """Return a reduction over the last dimension that keeps it, of the operand of the node."""
        node = self.call(operand, name)
        if node is None:
            return None
        source = self.node(node.args[0])
        dims = node.argument(1, "dim")
        only = dims[0] if isinstance(dims, tuple) and len(dims) == 1 else dims
        rank = len(source.shape) if source else 0
        kept = bool(node.argument(2, "keepdim"))
        return node if kept and isinstance(only, int) and rank and only % rank == rank - 1 else None


def number(operand: Operand) -> float | None:
    """Return an operand that is a plain number."""
    return float(operand) if isinstance(operand, int | float) and not isinstance(operand, bool) else None


def is_last(node: Node, position: int) -> bool:
    """Return whether an operation goes along the last dimension."""
    dim = node.argument(position, "dim")
    return isinstance(dim, int) and dim % max(1, len(node.shape)) == len(node.shape) - 1
