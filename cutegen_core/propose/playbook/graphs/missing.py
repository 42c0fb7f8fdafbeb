"""Name the operations of a graph that the playbook has no rule for."""

from __future__ import annotations

from cutegen_core.propose.playbook.graphs.in_place import needed
from cutegen_core.propose.playbook.pointwise.operations import BINARY, UNARY
from cutegen_core.propose.playbook.rules import RULES, SEVERAL
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node
from cutegen_core.records.operations import Flow


def operations_without_rule(graph: Graph) -> tuple[str, ...]:
    """Return such operations that an output is made of, as traced, each once, with the first line that has it."""
    counted = needed(graph)
    unknown = (
        node
        for node in graph.nodes
        if node.name in counted
        and node.op not in ("input", "constant")
        and not any(ops.name(node) in known for known in (RULES, SEVERAL, UNARY, BINARY))
        and ops.traits(node).flow is not Flow.COPY
    )
    first = {node.op: node for node in reversed(list(unknown))}
    return tuple(_named(node) for node in reversed(first.values()))


def _named(node: Node) -> str:
    random = "" if ops.name(node) not in ops.RANDOM else ", which draws random numbers"
    return f"{node.op} (line {node.line}){random}" if node.line else f"{node.op}{random}"
