"""Read single operands of a traced operation. What the operations do is in `records.operations`."""

from __future__ import annotations

from cutegen_core.records.graph import Graph, Node, Operand, Ref


def tensor(node: Node, position: int) -> str:
    """Give the name of the tensor at a position among the arguments, "" when there is none."""
    operand = node.args[position] if position < len(node.args) else None
    return operand.node if isinstance(operand, Ref) else ""


def number(node: Node, position: int, keyword: str, default: int) -> int:
    """Give a whole-number argument by position or keyword."""
    value = node.args[position] if position < len(node.args) else node.kwargs.get(keyword, default)
    return int(value) if isinstance(value, int | float) else default


def numbers(operand: Operand, rank: int, default: int) -> tuple[int, ...]:
    """Give one number a spatial dimension, from a number, a tuple or nothing."""
    if isinstance(operand, tuple) and operand:
        values = tuple(int(v) for v in operand if isinstance(v, int | float))
        return values * rank if len(values) == 1 else values
    return (int(operand),) * rank if isinstance(operand, int) else (default,) * rank


def by_name(graph: Graph) -> dict[str, Node]:
    """Map each node's name to the node."""
    return {node.name: node for node in graph.nodes}
