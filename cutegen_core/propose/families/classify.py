"""The family of a reference, by the heaviest operation of its traced graph; it is never guessed by a model.

1. Operations that no family claims are small; the others are heavy.
2. One family, or one beside which the others may stand (attention: a softmax between products), takes the graph.
3. Of several, the one of the product with most FLOPs: a convolution in a chain is a convolution. Without a product, or
   with a heavy operation that nobody knows, it is a chain of several.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.evaluate.roofline.products import products
from cutegen_core.propose.families.family import Families, Family, Otherwise, registered
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node
from cutegen_core.records.operations import VIEWS, Flow

_CHAIN = 2
"""Small operations around a heavy one that still are no chain."""
_NO_WORK = VIEWS | {Flow.INPUT, Flow.CREATION, Flow.COPY}


def classify(graph: Graph, families: Families | None = None) -> Family:
    """Find the family of a whole graph, among the package's unless others are given."""
    known = families or registered()
    if not graph.nodes:
        return known.otherwise(Otherwise.UNCLAIMED)
    claims = [known.claiming(node) for node in graph.nodes]
    heavy = [family for family in claims if family is not None]
    if not heavy:
        return known.otherwise(Otherwise.NOTHING_HEAVY)
    names = {family.name for family in heavy}
    for family in heavy:
        if family.beside and names <= {family.name, *family.beside} and _stands_between(family, graph, claims):
            return family
    if len(names) == 1:
        return heavy[0]
    heaviest = None if known.otherwise(Otherwise.UNCLAIMED).name in names else _of_heaviest_product(graph, claims)
    return heaviest or known.otherwise(Otherwise.SEVERAL)


def is_chain(graph: Graph, families: Families | None = None) -> bool:
    """Return whether so much stands around the heaviest operation that fusing comes first."""
    known = families or registered()
    claims = [known.claiming(node) for node in graph.nodes]
    heavy = sum(family is not None for family in claims)
    small = sum(family is None and _works(node) for node, family in zip(graph.nodes, claims, strict=True))
    return heavy > 1 or (heavy == 1 and small > _CHAIN)


def _stands_between(family: Family, graph: Graph, claims: Sequence[Family | None]) -> bool:
    """Return whether this family's operation is followed by another one's product, or nothing here is a product."""
    own = [place for place, claim in enumerate(claims) if claim == family]
    flows = [ops.traits(node).flow for node in graph.nodes]
    multiplies = [place for place, flow in enumerate(flows) if flow in (Flow.PRODUCT, Flow.CONTRACTION)]
    return not multiplies or any(place > own[0] for place in multiplies)


def _of_heaviest_product(graph: Graph, claims: Sequence[Family | None]) -> Family | None:
    counted = products(graph, {})
    if not counted:
        return None
    heaviest = max(counted, key=lambda product: product.flops)
    return next(claim for node, claim in zip(graph.nodes, claims, strict=True) if node.name == heaviest.node)


def _works(node: Node) -> bool:
    return ops.traits(node).flow not in _NO_WORK
