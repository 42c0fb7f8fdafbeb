"""Find out whether the reference is one call of a vendor's library: then eager is that call and has a name."""

from __future__ import annotations

from cutegen_core.evaluate.roofline.operands import by_name
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph


def library_call(graph: Graph) -> str | None:
    """Name the call, such as "torch.mm", where one library operation and views are all the reference does."""
    nodes = by_name(graph)
    works = [node for node in graph.nodes if not ops.is_free(node, nodes)]
    library = ops.traits(works[0]).library if len(works) == 1 else ""
    return f"{library}.{ops.name(works[0])}" if library else None
