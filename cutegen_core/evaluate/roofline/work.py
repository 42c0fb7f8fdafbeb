"""Count the work of one run of a reference on its traced graph: bytes through device memory, FLOPs by kind.

* `graph_work`: every input byte that is used and every output byte once, all FLOPs as traced.
* `compulsory_work`: what no algorithm avoids; a lower bound, so everything doubtful counts nothing.
* `stated`: what the problem file says itself, COMPULSORY = {"bytes": "4 * N * N", "flops": "2 * N**3"}: numbers or
  expressions over the file's sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from cutegen_core.evaluate.roofline.demand import demand
from cutegen_core.evaluate.roofline.operands import by_name, tensor
from cutegen_core.evaluate.roofline.products import products, unavoidable
from cutegen_core.evaluate.roofline.regions import Triangle
from cutegen_core.judge import problem_source
from cutegen_core.kernel.expressions import ExpressionError, Scope, parse_expression
from cutegen_core.machine.python_text import parse_module
from cutegen_core.records import operations as ops
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import Graph, InputFacts, Node
from cutegen_core.records.operations import ROWS, Flow
from cutegen_core.records.problem import ITEMSIZE, Signature

PLAIN, STATED = "plain float32", "stated"
"""Kinds of FLOPs beside the dtypes: those of no product, and those the file states."""
_MATRIX = 2


@dataclass(frozen=True)
class Work:
    """The work that one run must do.

    Attributes:
        moved_bytes: to and from device memory.
        flops: by kind: of products the operands' dtype, of everything else PLAIN or "float64".
    """

    moved_bytes: int
    flops: Mapping[str, int] = field(default_factory=dict)


def graph_work(graph: Graph, signature: Signature) -> Work:
    """Count the work as traced; intermediate results stay on chip, gathered tables count the rows looked up."""
    need = demand(graph, {}, generous=True)
    read = sum(need[t.name].count * t.itemsize for t in signature.inputs if t.name in need)
    flops: dict[str, int] = {}
    for product in products(graph, {}):
        flops[product.dtype] = flops.get(product.dtype, 0) + product.flops
    nodes = by_name(graph)
    for node in graph.nodes:
        # outside the tensor pipes, narrow floats are computed with as fp32
        kind = "float64" if node.dtype == "float64" else PLAIN
        flops[kind] = flops.get(kind, 0) + _plain_flops(node, nodes)
    return Work(read + sum(t.nbytes for t in signature.outputs), {k: n for k, n in flops.items() if n})


def unfused_bytes(graph: Graph) -> int:
    """Count the bytes if every node reads its operands from memory and writes its result, as eager execution does;
    views move nothing."""
    nodes, total = by_name(graph), 0
    for node in graph.nodes:
        if ops.is_free(node, nodes):
            continue
        tensors = [nodes[name] for name in dict.fromkeys(node.operands())]
        total += sum(_nbytes(t) for t in (*tensors, node))
    return total


def compulsory_work(graph: Graph, signature: Signature, l2_bytes: int, facts: Mapping[str, InputFacts]) -> Work:
    """Count what no algorithm avoids: each input byte that matters, outputs beyond the L2, the unavoidable part of
    products.

    Args:
        facts: by input name; an input without one is taken to be arbitrary.
    """
    need = demand(graph, facts)
    read = 0
    for spec in signature.inputs:
        fact = facts.get(spec.name, InputFacts())
        region = need.get(spec.name)
        if region is not None and fact.matters:
            read += (region.within(Triangle(lower=False)) if fact.symmetric else region).count * spec.itemsize
    written = max(0, sum(t.nbytes for t in signature.outputs) - l2_bytes)
    if not any(facts.get(t.name, InputFacts()).matters for t in signature.inputs):
        return Work(written)
    return Work(read + written, unavoidable(graph, facts))


def _plain_flops(node: Node, nodes: Mapping[str, Node]) -> int:
    """Return the FLOPs of anything but a product."""
    traits, results = ops.traits(node), prod(node.shape)
    names = [n for n in node.operands() if n in nodes]
    if traits.flow in ROWS or traits.flow is Flow.POOLING:
        return traits.cost * prod(nodes[names[0]].shape) if names else 0
    if traits.flow is Flow.SCATTER:
        return traits.cost * prod(nodes[tensor(node, traits.at)].shape) if traits.cost else 0
    if traits.flow is Flow.SEGMENT:
        return traits.cost * _summed(node, nodes)
    if ops.name(node) in ("linear", "addmm", "baddbmm", "addmv", "addbmm") and len(names) > 2:
        return results
    if traits.stepwise:
        return _of_all_steps(node, nodes)
    if traits.flow in (Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION):
        return results if len(names) > 2 else 0
    cost = 1 if ops.name(node) == "pow" and node.argument(1) in (2, 2.0) else traits.cost
    return cost * results if node.dtype.startswith(("float", "bfloat")) else 0


def _of_all_steps(node: Node, nodes: Mapping[str, Node]) -> int:
    """Return what the products of a recurrent layer cost: each weight is used once for each step of each sequence."""
    weights = [nodes[name] for name in node.operands() if name in nodes and len(nodes[name].shape) == _MATRIX]
    return 2 * prod(nodes[tensor(node, 0)].shape[:2]) * sum(prod(one.shape) for one in weights)


def _summed(node: Node, nodes: Mapping[str, Node]) -> int:
    """Return how many elements go into segments: those of the data, or a row of the table for each index."""
    data = nodes[tensor(node, 0)].shape
    return prod(nodes[tensor(node, 1)].shape) * data[-1] if ops.name(node) == "embedding_bag" else prod(data)


def _nbytes(node: Node) -> int:
    return prod(node.shape) * ITEMSIZE.get(node.dtype, 0)


# -- a problem's own statement -----------------------------------------------------------------------------------------


def stated(source: str) -> Work | None:
    """Return COMPULSORY of a reference's text (`moved_bytes` is -1 if it states only FLOPs; those are "stated"), or
    None.

    Args:
        source: with the workload's sizes in place.

    Raises:
        ProblemError: not {"bytes": ..., "flops": ...} of numbers or expressions over the file's sizes.
    """
    tree = parse_module(source)
    found = problem_source.read_literal(tree, "COMPULSORY", "COMPULSORY")
    if found is None:
        return None
    value, line = found
    if not isinstance(value, dict) or not value or set(value) - {"bytes", "flops"}:
        raise ProblemError(f'line {line}: COMPULSORY is a dict with "bytes", "flops" or both.')
    sizes = {name: slot.value for name, slot in problem_source.find_size_slots(tree).items()}
    numbers = {name: size for name, size in sizes.items() if isinstance(size, int | float)}
    counts = {key: _evaluated(key, entry, line, numbers) for key, entry in value.items()}
    return Work(counts.get("bytes", -1), {STATED: counts["flops"]} if "flops" in counts else {})


def _evaluated(key: str, entry: object, line: int, numbers: Mapping[str, int | float]) -> int:
    if isinstance(entry, int | float) and not isinstance(entry, bool):
        return int(entry)
    if not isinstance(entry, str):
        raise ProblemError(f"line {line}: COMPULSORY[{key!r}] is a number or an expression over the file's sizes.")
    try:
        return int(parse_expression(entry).evaluate(Scope(numbers=dict(numbers))))
    except ExpressionError as error:
        raise ProblemError(f"line {line}: COMPULSORY[{key!r}]: {error}.") from error
