"""A GraphSAGE layer: relu(mean of the neighbours @ Wn + own row @ Wr + b)."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.gather.matching import INDEX, bag
from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Signature

_LEVELS = (
    ("naive", "means by one thread an element, then one thread a result along both rows of weights"),
    ("packed", "means by as many lanes a row as it has 128-bit chunks; products of both kinds by 64 x 64 tiles"),
    ("fused", "a block gathers the means of its rows into shared memory next to their own, and multiplies there"),
    (
        "multistage",
        "means as in packed; both products as one, by cp.async through stages of shared memory, tiles tunable",
    ),
    (
        "3xTF32",
        "means as in packed; each float as two numbers that tensor cores multiply: three products by mma m16n8k8 from "
        "cp.async stages, summed in float32, what is not finite summed again; tiles tunable",
    ),
)


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the only output is such a layer in float32; else nothing."""
    if len(graph.outputs) != 1:
        return ()
    matcher, out = Matcher(graph), signature.outputs[0]
    relu = matcher.call(Ref(graph.outputs[0]), "relu")
    pair = matcher.pair(relu.args[0], "add") if relu is not None else None
    for first, second in (pair, pair[::-1]) if pair else ():
        own = _own(matcher, first)
        product = matcher.call(second, "matmul", "mm")
        found = bag(matcher, product.args[0]) if product is not None else None
        neighbour = matcher.given(product.args[1]) if product is not None else None
        if own is None or found is None or neighbour is None or found.mode != "mean":
            continue
        bias, table, root, rows = own
        fits = matcher.given(found.table) is table and rows == found.indptr.shape[0] - 1
        if (
            not fits
            or {n.dtype for n in (bias, table, root, neighbour)} != {"float32"}
            or root.shape != neighbour.shape
        ):
            continue
        values = {
            "table": table.name,
            "idx": found.idx.name,
            "indptr": found.indptr.name,
            "neighbour": neighbour.name,
            "root": root.name,
            "bias": bias.name,
            "out": out.name,
            "index": INDEX[found.idx.dtype],
        }
        return tuple(ServingLevel(name, idea, "gather_layer.cu.j2", values) for name, idea in _LEVELS)
    return ()


def _own(matcher: Matcher, operand: Operand) -> tuple[Node, Node, Node, int] | None:
    """Match addmm(bias, table[:rows], root); return bias, table, root and rows."""
    node = matcher.call(operand, "addmm")
    if node is None or node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("beta", 1) != 1:
        return None
    bias, part, root = matcher.given(node.args[0]), matcher.call(node.args[1], "slice"), matcher.given(node.args[2])
    if bias is None or part is None or root is None or len(bias.shape) != 1:
        return None
    table = matcher.given(part.args[0])
    first = part.argument(1, "dim") in (None, 0) and part.argument(2, "start") in (None, 0)
    if table is None or len(table.shape) != 2 or not first or part.argument(4, "step") not in (None, 1):
        return None
    return bias, table, root, part.shape[0]
