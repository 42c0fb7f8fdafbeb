"""Find the operations whose results count, and those that write to an operand where nobody would see it.

`x.add_(1)` is `x + 1` if nothing that counts reads `x` by another name afterwards: the trace lets what follows refer to
the result, but a view of `x` that was taken before keeps its old node. The running statistics of a norm are written to
buffers that no output reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Ref


def needed(graph: Graph) -> frozenset[str]:
    """Return the names of the nodes that an output is made of."""
    nodes, found = {node.name: node for node in graph.nodes}, set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in found:
            found.update(nodes[node.name].operands())
    return frozenset(found)


def seen_writes(graph: Graph) -> frozenset[str]:
    """Return the nodes that write to an operand which something needed reads by another name afterwards."""
    counted = needed(graph)
    return frozenset(node.name for at, node in enumerate(graph.nodes) if _is_seen(graph, at, node, counted))


def _is_seen(graph: Graph, at: int, node: Node, counted: frozenset[str]) -> bool:
    written = node.argument(0)
    if not ops.writes_operand(node) or not isinstance(written, Ref):
        return False
    before = set(_names_of(graph, at, written.node))
    later = (n for n in graph.nodes[at + 1 :] if n.name in counted)
    return any(before.intersection(n.operands()) for n in later) or bool(before.intersection(graph.outputs))


def _names_of(graph: Graph, at: int, tensor: str) -> Iterator[str]:
    """Yield the names under which the memory of a tensor was known before a node."""
    nodes = {node.name: node for node in graph.nodes[:at]}
    base = {name: _base(nodes, name) for name in nodes}
    yield from (name for name in nodes if base[name] == base.get(tensor))


def _base(nodes: dict[str, Node], name: str) -> str:
    node = nodes[name]
    while _is_same_memory(node):
        source = next(iter(node.operands()), "")
        if source not in nodes:
            break
        node = nodes[source]
    return node.name


def _is_same_memory(node: Node) -> bool:
    known = ops.traits(node)
    return node.op != "input" and (known.free or known.flow in ops.VIEWS or ops.writes_operand(node))
