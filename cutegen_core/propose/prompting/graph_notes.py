"""Read off the traced graph what a chain of operations allows before a kernel is written.

Facts for the prompt: the operations with their shapes, work that depends on parameters alone and can be hoisted,
pointwise runs that fuse, operations that cancel or whose result is constant along a dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen_core.propose.families.classify import classify
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.operations import Flow
from cutegen_core.records.problem import Signature, TensorRole

_CENTRING = ("instance_norm",)
_BIASED = ("conv",)


def describe(graph: Graph, signature: Signature, limit: int = 60) -> str:
    """Return the graph with one operation per line, then what follows from it."""
    if not graph.nodes:
        return f"The reference could not be traced: {graph.reason or 'no operations'}."
    steps = [
        f"- {n.name} = {ops.as_traced(n)}({_operands(n)}) -> {n.dtype} {list(n.shape)}"
        for n in graph.nodes
        if _is_step(n)
    ]
    shown = steps[:limit] + ([f"- ... and {len(steps) - limit} more"] if len(steps) > limit else [])
    notes = [f"* {note}" for note in _notes(graph, signature)]
    return "\n".join([*shown, *notes])


def algebra(graph: Graph, signature: Signature) -> tuple[str, ...]:
    """Return what can be computed once, left out or undone before a kernel is written."""
    nodes = {node.name: node for node in graph.nodes}
    found = [note for node in graph.nodes for note in (*_cancelling(node, nodes), *_shifted_away(node, nodes))]
    return (*_hoistable(graph, signature), *found)


def _shifted_away(node: Node, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield a note for a bias of a convolution or product that a norm over the same channel cancels."""
    before = next((nodes[name] for name in node.operands() if name in nodes), None)
    if before is None or ops.name(node) not in _CENTRING or not any(part in ops.name(before) for part in _BIASED):
        return
    if len([name for name in before.operands() if name in nodes]) > 2:
        yield f"{node.name}: a mean over each channel is subtracted, so the bias of {before.name} cancels: leave it out"


def _notes(graph: Graph, signature: Signature) -> Iterator[str]:
    yield f"class: {classify(graph).name}"
    yield from algebra(graph, signature)
    yield from _fusable(graph, {node.name: node for node in graph.nodes})


def _hoistable(graph: Graph, signature: Signature) -> Iterator[str]:
    """Yield a note for each operation whose operands are parameters and constants only: it can be computed once."""
    parameters = {t.name for t in signature.inputs if t.role in (TensorRole.PARAMETER, TensorRole.BUFFER)}
    fixed = {n.name for n in graph.nodes if n.op == "constant" or (n.op == "input" and n.name in parameters)}
    for node in graph.nodes:
        operands = list(node.operands())
        if _is_step(node) and operands and all(name in fixed for name in operands):
            fixed.add(node.name)
            yield f"{node.name} ({ops.as_traced(node)}) depends on parameters only: hoist it into a small first launch"


def _cancelling(node: Node, nodes: Mapping[str, Node]) -> Iterator[str]:
    name, traits = ops.name(node), ops.traits(node)
    for operand in node.operands():
        before = nodes.get(operand)
        if before is None:
            continue
        if traits.undoes and traits.undoes == ops.name(before):
            yield f"{name} of {ops.name(before)} ({node.name}): they cancel where both are defined"
        if traits.idempotent and _repeats(node, before):
            yield f"{node.name}: {name} applied twice; once is enough"
    sizes = [nodes[o].shape for o in node.operands() if o in nodes]
    if traits.lone and sizes and node.shape == sizes[0] and any(extent == 1 for extent in sizes[0]):
        yield f"{node.name}: {name} over a dimension of size 1 changes nothing"
    dim = node.argument(1, "dim")
    if name == "softmax" and sizes and sizes[0] and isinstance(dim, int) and sizes[0][dim] == 1:
        yield f"{node.name}: softmax over a dimension of size 1 is the constant 1"


def _repeats(node: Node, before: Node) -> bool:
    """Return whether it is the same operation with the same arguments again."""
    same = ops.name(node) == ops.name(before)
    return same and node.args[1:] == before.args[1:] and dict(node.kwargs) == dict(before.kwargs)


def _is_step(node: Node) -> bool:
    """Return whether the node computes something, rather than being given or one of several results."""
    return ops.traits(node).flow not in (Flow.INPUT, Flow.ITEM) and ops.name(node) != "constant"


def _fusable(graph: Graph, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield a note that lists the results which exactly one operation reads: they need not reach memory."""
    uses: dict[str, int] = {}
    for node in graph.nodes:
        for operand in node.operands():
            uses[operand] = uses.get(operand, 0) + 1
    chain = [n.name for n in graph.nodes if _is_step(n) and uses.get(n.name, 0) == 1 and n.name not in graph.outputs]
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
