"""What a chain of operations allows before anyone writes a kernel, read off the traced graph.

Facts for the prompt: the operations with their shapes, work that depends on parameters alone and can be hoisted,
pointwise runs that fuse, operations that cancel or whose result is constant along a dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen_core.propose.prompting.workload_class import classify, plain_op
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Signature, TensorRole

_FREE = ("input", "constant", "getitem")
_POINTWISE_INVERSES = {("exp", "log"), ("log", "exp"), ("neg", "neg"), ("t", "t"), ("sqrt", "square")}
_IDEMPOTENT = ("relu", "abs", "clamp", "hardtanh", "floor", "ceil", "round")


def describe(graph: Graph, signature: Signature, limit: int = 60) -> str:
    """The graph as one operation a line, then what follows from it."""
    if not graph.nodes:
        return f"The reference could not be traced: {graph.reason or 'no operations'}."
    steps = [
        f"- {n.name} = {plain_op(n)}({_operands(n)}) -> {n.dtype} {list(n.shape)}"
        for n in graph.nodes
        if n.op not in _FREE
    ]
    shown = steps[:limit] + ([f"- ... and {len(steps) - limit} more"] if len(steps) > limit else [])
    notes = [f"* {note}" for note in _notes(graph, signature)]
    return "\n".join([*shown, *notes])


def _notes(graph: Graph, signature: Signature) -> Iterator[str]:
    yield f"class: {classify(graph)}"
    yield from _hoistable(graph, signature)
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        yield from _cancelling(node, nodes)
    yield from _fusable(graph, nodes)


def _hoistable(graph: Graph, signature: Signature) -> Iterator[str]:
    """Operations whose operands are parameters and constants only: computed once, before the main launch."""
    parameters = {t.name for t in signature.inputs if t.role in (TensorRole.PARAMETER, TensorRole.BUFFER)}
    fixed = {n.name for n in graph.nodes if n.op == "constant" or (n.op == "input" and n.name in parameters)}
    for node in graph.nodes:
        operands = list(node.operands())
        if node.op not in _FREE and operands and all(name in fixed for name in operands):
            fixed.add(node.name)
            yield f"{node.name} ({plain_op(node)}) depends on parameters only: hoist it into a small first launch"


def _cancelling(node: Node, nodes: Mapping[str, Node]) -> Iterator[str]:
    name = plain_op(node)
    for operand in node.operands():
        before = plain_op(nodes[operand]) if operand in nodes else ""
        if (before, name) in _POINTWISE_INVERSES:
            yield f"{name} of {before} ({node.name}): they cancel where both are defined"
        if before == name and name in _IDEMPOTENT:
            yield f"{node.name}: {name} applied twice; once is enough"
    sizes = [nodes[o].shape for o in node.operands() if o in nodes]
    if name in ("amax", "max", "mean", "sum", "softmax", "logsumexp") and sizes and node.shape == sizes[0]:
        reduced_over_one = any(extent == 1 for extent in sizes[0]) and name != "softmax"
        if reduced_over_one:
            yield f"{node.name}: {name} over a dimension of size 1 changes nothing"
    if name == "softmax" and sizes and sizes[0] and sizes[0][-1] == 1:
        yield f"{node.name}: softmax over a dimension of size 1 is the constant 1"


def _fusable(graph: Graph, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Results read by exactly one operation of the same shape: they never need to reach memory."""
    uses: dict[str, int] = {}
    for node in graph.nodes:
        for operand in node.operands():
            uses[operand] = uses.get(operand, 0) + 1
    chain = [
        n.name for n in graph.nodes if n.op not in _FREE and uses.get(n.name, 0) == 1 and n.name not in graph.outputs
    ]
    if len(chain) > 1:
        yield f"read exactly once, so fusable into their reader: {', '.join(chain)}"


def _operands(node: Node) -> str:
    def text(operand: Operand) -> str:
        if isinstance(operand, Ref):
            return operand.node
        if isinstance(operand, tuple):
            return f"[{', '.join(text(part) for part in operand)}]"
        return str(operand)

    return ", ".join([*(text(a) for a in node.args), *(f"{k}={text(v)}" for k, v in node.kwargs.items())])
