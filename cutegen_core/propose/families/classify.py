"""The family of a reference, by the heaviest operations of its traced graph; it is never guessed by a model."""

from __future__ import annotations

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
    first = heavy[0]
    names = {family.name for family in heavy}
    for family in heavy:
        if family.beside and names <= {family.name, *family.beside}:
            return family
    small = sum(family is None and _works(node) for node, family in zip(graph.nodes, claims, strict=True))
    if len(names) > 1 or (first.fuses and (len(heavy) > 1 or small > _CHAIN)):
        return known.otherwise(Otherwise.SEVERAL)
    return first


def _works(node: Node) -> bool:
    return ops.traits(node).flow not in _NO_WORK
