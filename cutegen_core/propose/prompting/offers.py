"""Choose what a menu offers: what fits the problem's dtypes and shape, the device, and what the kernel does not do yet.

1. `traits_of`: what is true of a problem, in the words of `families.family.TRAITS`.
2. `offered`: algebra and fusion first where the graph is a chain; then the family's own menu. An item that `needs` what
   is not true is left out, and so is one whose `done` the current kernel's code matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from cutegen_core.evaluate.roofline.products import CountedProduct, products
from cutegen_core.propose.families.classify import classify, is_chain
from cutegen_core.propose.families.family import MenuItem, Otherwise, menu, registered
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import graph_notes
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node
from cutegen_core.records.operations import VIEWS, Flow

_SAME_VALUES = VIEWS | {Flow.COPY}
_SKINNY = 16
_TILE = 128
_LONG = 4096
_CHEAP = 8
"""FLOPs an element, beyond which a formula may have a cheaper form."""
_HALVES = ("float16", "bfloat16")
_AFTER = (Flow.POINTWISE, Flow.CHANNELWISE)
_SUMS = (Flow.REDUCTION, Flow.LOSS, Flow.NORMALISATION, Flow.SOFTMAX, Flow.POOLING)


def offered(request: ProposalRequest) -> tuple[MenuItem, ...]:
    """Return the ideas for this problem, device and kernel, in order, tried or not."""
    true, family = traits_of(request), classify(request.graph)
    code = request.base.source.partition("*/")[2] if request.base and request.has_passed else ""
    chained = registered().otherwise(Otherwise.SEVERAL)
    around = [item for item in chained.menu if item.around] if is_chain(request.graph) and family != chained else []
    own = menu(family, request.device.arch)
    items = (*around, *(item for item in own if item.key not in {each.key for each in around}))
    fits = [item for item in items if true.issuperset(item.needs) and not (item.done and re.search(item.done, code))]
    return tuple(sorted(fits, key=lambda item: item.kind != "structure"))


def traits_of(request: ProposalRequest) -> frozenset[str]:
    """Return what is true of the problem, out of `TRAITS`."""
    found = {
        *_of_products(request),
        *_of_rows(request.graph),
        *_of_graph(request),
    }
    return frozenset(found)


def _of_products(request: ProposalRequest) -> Iterator[str]:
    counted = products(request.graph, {})
    if not counted:
        return
    heaviest = max(counted, key=lambda product: product.flops)
    yield "product"
    nodes = {node.name: node for node in request.graph.nodes}
    origins = {_origin(name, nodes).dtype for name in (heaviest.left, heaviest.right) if name in nodes}
    if origins <= {*_HALVES} or (heaviest.dtype == "float32" and "tf32" in request.problem.allow):
        yield "halves"
    elif heaviest.dtype == "float32":
        yield "float32 products"
    sides = _sides(request.graph, heaviest)
    if min(sides) <= _SKINNY:
        yield "skinny"
    else:
        yield "square"
    tiles = prod(-(-side // _TILE) for side in sides)
    if tiles < request.device.sm_count and heaviest.inner >= _LONG // 4:
        yield "few tiles"


def _origin(name: str, nodes: Mapping[str, Node]) -> Node:
    """Return what an operand is a cast or a view of: halves that are widened are halves."""
    node = nodes[name]
    while ops.traits(node).flow in _SAME_VALUES:
        before = next((operand for operand in node.operands() if operand in nodes), None)
        if before is None:
            return node
        node = nodes[before]
    return node


def _sides(graph: Graph, product: CountedProduct) -> tuple[int, int]:
    """Return rows and columns of a product, from its FLOPs: 2 * rows * columns * inner."""
    node = next(node for node in graph.nodes if node.name == product.node)
    columns = node.shape[-1] if node.shape else 1
    if ops.traits(node).flow in (Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION):
        columns = node.shape[1] if len(node.shape) > 1 else 1
    outputs = max(1, product.flops // max(1, 2 * product.inner))
    return max(1, outputs // max(1, columns)), max(1, columns)


def _of_rows(graph: Graph) -> Iterator[str]:
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        if ops.traits(node).flow not in ops.ROWS:
            continue
        shapes = [nodes[name].shape for name in node.operands() if name in nodes]
        if not shapes or not shapes[0]:
            continue
        last = _reduces_last(node, len(shapes[0]))
        yield "last dimension" if last else "inner dimension"
        length = shapes[0][-1] if last else 0
        rows = prod(shapes[0]) // max(1, length)
        if last and length >= _LONG and rows < 4 * _TILE:
            yield "few long rows"


def _reduces_last(node: Node, rank: int) -> bool:
    """Return whether the last dimension is among those that a row is read along."""
    if ops.traits(node).flow is Flow.NORMALISATION:
        return True
    named = node.argument(1, "dim")
    dims = named if isinstance(named, tuple) else (named,)
    whole = [dim for dim in dims if isinstance(dim, int)]
    return not whole or any(dim % rank == rank - 1 for dim in whole)


def _of_graph(request: ProposalRequest) -> Iterator[str]:
    graph = request.graph
    flows = [ops.traits(node).flow for node in graph.nodes]
    if graph_notes.algebra(graph, request.signature):
        yield "algebra"
    heavy = [place for place, flow in enumerate(flows) if flow in _HEAVY]
    after = flows[heavy[-1] + 1 :] if heavy else []
    if any(flow in _AFTER for flow in after):
        yield "epilogue"
    multiplies = [place for place, flow in enumerate(flows) if flow in _PRODUCTS] or heavy[:1]
    if multiplies and any(flow in _SUMS for flow in flows[multiplies[-1] + 1 :]):
        yield "reduction after"
    if Flow.ATTENTION in flows or (Flow.SOFTMAX in flows and sum(flow is Flow.PRODUCT for flow in flows) > 1):
        yield "attention"
    elif Flow.SOFTMAX in flows:
        yield "rows of softmax"
    if any(flow in (Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION) for flow in flows):
        yield "depthwise" if _is_depthwise(graph) else "dense convolution"
    if Flow.POOLING in flows:
        yield "pooling"
    if Flow.PERMUTE in flows:
        yield "permuted"
    pointwise = [node for node in graph.nodes if ops.traits(node).flow in _AFTER]
    if len(pointwise) > 1:
        yield "several operations"
    if sum(ops.traits(node).cost for node in pointwise) > _CHEAP:
        yield "special functions"


_PRODUCTS = (Flow.PRODUCT, Flow.CONTRACTION, Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION, Flow.ATTENTION)
_HEAVY = (*_PRODUCTS, Flow.SOFTMAX, Flow.NORMALISATION, Flow.REDUCTION, Flow.LOSS, Flow.POOLING, Flow.SCAN)


def _is_depthwise(graph: Graph) -> bool:
    """Return whether the filters of the convolutions see one channel each."""
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        if ops.traits(node).flow is Flow.CONVOLUTION:
            shapes = [nodes[name].shape for name in node.operands() if name in nodes]
            if len(shapes) > 1 and len(shapes[1]) > 1 and shapes[1][1] == 1:
                return True
    return False
