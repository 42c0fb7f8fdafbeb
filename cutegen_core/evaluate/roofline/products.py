"""Find every product of a traced graph (matrix products, convolutions, attention) with its FLOPs: as traced, and the
part that no algorithm avoids.

As traced: 2 * M * N * K of a matrix product, 2 * outputs * window * channels of a convolution, 4 * rows * keys * width
of attention.

Unavoidable, in this order (each step only lowers the count):

* a product with a constant, with a tensor of many zeros or with one that does not matter counts nothing;
* only the results that matter count (`demand`), operands that are zero outside a triangle or a diagonal count their
  share, a product of a tensor with its own transpose counts half (its result is symmetric);
* a convolution counts one multiplication per output and input channel: minimal filtering approaches that (Winograd,
  "Arithmetic Complexity of Computations", 1980; Lavin and Gray, CVPR 2016);
* 7/8 of what is left: one level of Strassen (Numerische Mathematik 13, 1969). Further levels do not pay at sizes that
  run in milliseconds;
* products joined by linear operations only can be reassociated or merged (A(Bx), AB + AC, a sum over a product's rows):
  of such a group only the cheapest guess counts, its largest member with the smallest inner extent of the group, and
  nothing where a linear reduction follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from cutegen_core.evaluate.roofline.demand import Demand, demand
from cutegen_core.evaluate.roofline.operands import by_name, number, numbers, tensor
from cutegen_core.evaluate.roofline.structure import TRIANGLES, sparse, zeros
from cutegen_core.evaluate.roofline.windows import windows
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, InputFacts, Node
from cutegen_core.records.operations import Flow

STRASSEN = Fraction(7, 8)

_SCORES = ":scores"
_SAME_ELEMENTS = (Flow.COPY, Flow.RESHAPE, Flow.PERMUTE)
_CONVOLUTIONS = (Flow.CONVOLUTION, Flow.TRANSPOSED_CONVOLUTION)
_SUMS = frozenset((Flow.REDUCTION, Flow.SCAN, Flow.POOLING, Flow.SCATTER, Flow.SEGMENT))
"""Flows that add elements up, where they are linear: with a product before them they may be rearranged."""


@dataclass(frozen=True)
class CountedProduct:
    """A product.

    Attributes:
        flops: as traced.
        inner: extent that is summed over.
        least: of `flops`, what no algorithm avoids, before groups are looked at.
        dtype: of the operands.
        place: its name among the groups: the node's, except for attention, which hides a product before a softmax.
    """

    node: str
    operation: str
    left: str
    right: str
    dtype: str
    flops: int
    inner: int
    least: int
    place: str


def products(graph: Graph, facts: Mapping[str, InputFacts]) -> tuple[CountedProduct, ...]:
    """Return all products, in execution order; the same product written twice is listed once."""
    nodes, need, found = by_name(graph), demand(graph, facts), zeros(graph, facts)
    trivial = _trivial(graph, facts) | sparse(graph, facts)
    seen: dict[object, CountedProduct] = {}
    for node in graph.nodes:
        for product in _products_of(node, nodes):
            key = (node.op, repr(node.args), repr(sorted(node.kwargs.items(), key=str)), product.operation)
            if key not in seen:
                seen[key] = _with_least(product, nodes, need, found, trivial)
    return tuple(seen.values())


def unavoidable(graph: Graph, facts: Mapping[str, InputFacts]) -> dict[str, int]:
    """Return the FLOPs that no algorithm avoids, by the operands' dtype; of a linear group the least product counts."""
    found = products(graph, facts)
    groups = _groups(graph, found)
    collapsed = _collapsed(graph, {p.place for p in found})
    total: dict[str, int] = {}
    for group in groups:
        ends = [p for p in group if p.place not in collapsed]
        inner = min(p.inner for p in group)
        least = max((p.least * min(p.inner, inner) // max(1, p.inner) for p in ends), default=0)
        dtype = group[0].dtype
        total[dtype] = total.get(dtype, 0) + least
    return {dtype: flops for dtype, flops in total.items() if flops}


# -- one product -------------------------------------------------------------------------------------------------------


def _products_of(node: Node, nodes: Mapping[str, Node]) -> Iterator[CountedProduct]:
    operation, traits = ops.name(node), ops.traits(node)
    left, right = tensor(node, traits.at), tensor(node, traits.at + 1)
    if operation == "matrix_power":
        squarings = max(0, number(node, 1, "n", 1) - 1).bit_length()  # no power takes fewer products
        if squarings:
            inner = node.shape[-1]
            yield _product(node, operation, nodes, left, left, squarings * 2 * prod(node.shape) * inner, inner)
    elif traits.flow is Flow.PRODUCT:
        inner = nodes[left].shape[-1] if nodes[left].shape else 1
        if operation == "addbmm":  # the batches are added up, too
            inner *= nodes[left].shape[0]
        yield _product(node, operation, nodes, left, right, 2 * prod(node.shape) * inner, inner)
    elif traits.flow is Flow.CONVOLUTION:
        inner = prod(nodes[right].shape[1:])
        yield _product(node, operation, nodes, left, right, 2 * prod(node.shape) * inner, inner)
    elif traits.flow is Flow.TRANSPOSED_CONVOLUTION:
        taps = prod(nodes[right].shape[1:])
        yield _product(node, operation, nodes, left, right, 2 * prod(nodes[left].shape) * taps, nodes[left].shape[1])
    elif traits.flow is Flow.ATTENTION:
        yield from _attention(node, nodes)
    elif operation == "einsum":
        yield from _einsum(node, nodes)
    elif operation == "tensordot":
        summed = node.argument(2)
        inner = (
            prod(nodes[left].shape[dim] for dim in summed if isinstance(dim, int)) if isinstance(summed, tuple) else 1
        )
        yield _product(node, operation, nodes, left, right, 2 * prod(node.shape) * inner, inner)
    elif operation == "cdist" and _norm_of(node) == 2.0:
        inner = nodes[left].shape[-1]
        yield _product(node, operation, nodes, left, right, 2 * prod(node.shape) * inner, inner)


def _product(
    node: Node, operation: str, nodes: Mapping[str, Node], left: str, right: str, flops: int, inner: int
) -> CountedProduct:
    return CountedProduct(node.name, operation, left, right, nodes[left].dtype, flops, inner, flops, node.name)


def _attention(node: Node, nodes: Mapping[str, Node]) -> Iterator[CountedProduct]:
    query, key, value = tensor(node, 0), tensor(node, 1), tensor(node, 2)
    *outer, rows, width = nodes[query].shape
    keys, value_width = nodes[key].shape[-2], nodes[value].shape[-1]
    causal = bool(node.argument(5, "is_causal"))
    # causal: row r sees keys 0 ... r
    seen = sum(min(keys, r + 1) for r in range(rows)) if causal else rows * keys
    scores = _product(node, "attention scores", nodes, query, key, 2 * prod(outer) * seen * width, width)
    yield replace(scores, place=node.name + _SCORES)
    yield _product(node, "attention values", nodes, query, value, 2 * prod(outer) * seen * value_width, keys)


def _einsum(node: Node, nodes: Mapping[str, Node]) -> Iterator[CountedProduct]:
    equation, names = node.args[0], list(node.operands())
    if not isinstance(equation, str) or "." in equation or len(names) != 2:
        return
    terms, _, result = equation.replace(" ", "").partition("->")
    extents = {letter: extent for term, name in zip(terms.split(","), names, strict=True)
               for letter, extent in zip(term, nodes[name].shape, strict=True)}  # fmt: skip
    inner = prod(extent for letter, extent in extents.items() if letter not in result)
    yield _product(node, "einsum", nodes, names[0], names[1], 2 * prod(extents.values()), inner)


def _norm_of(node: Node) -> float:
    """Return the p of a distance, 2 unless it is given."""
    value = node.argument(2, "p")
    return float(value) if isinstance(value, int | float) else 2.0


# -- what of it cannot be avoided --------------------------------------------------------------------------------------


def _with_least(
    product: CountedProduct, nodes: Mapping[str, Node], need: Demand, found: Mapping[str, str], trivial: frozenset[str]
) -> CountedProduct:
    node = nodes[product.node]
    region = need.get(product.node)
    if region is None or product.left in trivial or product.right in trivial:
        share = Fraction(0)
    else:
        share = STRASSEN * Fraction(region.count, max(1, prod(node.shape)))
        share *= _zero_share(product, nodes, found, region.triangle is not None)
        if ops.traits(node).flow in _CONVOLUTIONS and product.inner:
            share *= Fraction(_channels(product, node, nodes), product.inner)
        if _root(product.left, nodes) == _root(product.right, nodes) and region.triangle is None:
            share /= 2
    return replace(product, least=int(product.flops * share))


def _zero_share(product: CountedProduct, nodes: Mapping[str, Node], found: Mapping[str, str], halved: bool) -> Fraction:
    """Return the share of the multiplications whose factors may both differ from zero.

    A triangle leaves its own share; two square ones of the same kind 1/6 (1/3 of the result's half, where only that is
    counted), of opposite kinds 1/3; a diagonal 1/n.
    """
    kinds = (found.get(product.left, ""), found.get(product.right, ""))
    if product.operation not in ("matmul", "mm", "bmm") or kinds == ("", ""):
        return Fraction(1)
    if "diagonal" in kinds:
        return Fraction(1, max(1, product.inner))
    shapes = [nodes[name].shape[-2:] for name in (product.left, product.right)]
    if "" in kinds:
        shape = shapes[0] if kinds[0] else shapes[1]
        own = TRIANGLES[kinds[0] or kinds[1]].count(*shape)
        return Fraction(own, max(1, prod(shape))) * (Fraction(2, 3) if halved else 1)
    if any(len(set(shape)) > 1 for shape in shapes):
        return Fraction(0)
    return Fraction(1, 6) if kinds[0] == kinds[1] and not halved else Fraction(1, 3)


def _channels(product: CountedProduct, node: Node, nodes: Mapping[str, Node]) -> int:
    """Return how many multiplications a result needs at least, times `inner` over what was counted."""
    if ops.traits(node).flow is Flow.TRANSPOSED_CONVOLUTION:
        weights = nodes[product.right].shape
        rank = len(weights) - 2
        taps = prod(weights[2:])
        strides = numbers(node.argument(3, "stride"), rank, 1)
        # every input meets every tap; with a stride as wide as the window there is nothing to share
        return max(1, product.inner * min(taps, prod(strides)) // max(1, taps))
    rank = len(nodes[product.right].shape) - 2
    taps = prod(window for window, *_ in windows(node, rank, nodes))
    return max(1, product.inner // max(1, taps))


def _trivial(graph: Graph, facts: Mapping[str, InputFacts]) -> frozenset[str]:
    """Return nodes that depend on no input that matters, and one-hot vectors: multiplying by them is choosing."""
    found: set[str] = set()
    for node in graph.nodes:
        traits = ops.traits(node)
        if traits.flow is Flow.INPUT:
            matters = facts[node.name].matters if node.name in facts else True
            if not matters:
                found.add(node.name)
        elif traits.flow is Flow.CREATION or traits.sparse or all(n in found for n in node.operands()):
            found.add(node.name)
    return frozenset(found)


def _root(name: str, nodes: Mapping[str, Node]) -> str:
    """Return the tensor that a view shows."""
    node = nodes[name]
    traits = ops.traits(node)
    source = tensor(node, traits.at)
    return _root(source, nodes) if traits.flow in _SAME_ELEMENTS and source else name


# -- groups of products joined by linear operations --------------------------------------------------------------------


def _groups(graph: Graph, found: tuple[CountedProduct, ...]) -> list[list[CountedProduct]]:
    """Return products that a chain of linear operations joins, whichever way it runs."""
    owner: dict[str, str] = {}

    def root(name: str) -> str:
        while owner.setdefault(name, name) != name:
            name = owner[name]
        return name

    places = {p.place for p in found}
    for node in graph.nodes:
        if node.name in places or ops.traits(node).linear:
            inside = node.name + _SCORES
            before_softmax = {tensor(node, 0), tensor(node, 1)} if inside in places else set()
            for name in node.operands():
                if name in owner:
                    owner[root(name)] = root(inside if name in before_softmax else node.name)
        for place in (node.name, node.name + _SCORES):
            if place in places:
                root(place)
    groups: dict[str, list[CountedProduct]] = {}
    for product in found:
        groups.setdefault(root(product.place), []).append(product)
    return list(groups.values())


def _collapsed(graph: Graph, members: set[str]) -> set[str]:
    """Return products all of whose ways to an output begin with linear operations and a linear reduction or product."""
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.operands():
            users.setdefault(name, []).append(node)
    needed: dict[str, bool] = {}
    for node in reversed(graph.nodes):
        own = node.name in graph.outputs
        needed[node.name] = own or any(_keeps(user, members, needed) for user in users.get(node.name, []))
    return {name for name in members if not needed.get(name, True)}


def _keeps(user: Node, members: set[str], needed: Mapping[str, bool]) -> bool:
    """Return whether the elements of an operand of `user` must exist: not before linear reductions and products."""
    traits = ops.traits(user)
    if user.name in members or _sums(user) or traits.flow is Flow.CONTRACTION:
        return False
    return needed[user.name] if traits.linear else True


def _sums(node: Node) -> bool:
    """Return whether the operation adds elements of its operand up and does nothing else."""
    traits = ops.traits(node)
    return ops.name(node) == "trace" or (traits.linear and traits.flow in _SUMS and not traits.some)
