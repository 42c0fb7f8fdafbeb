"""Rows of a table added up by segment: the mean or sum of each row's neighbours, or the shares that rows give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.gather.matching import INDEX, bag, shares
from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.records.graph import Graph, Ref
from cutegen_core.records.problem import ITEMSIZE, Signature

_TYPES = ("float32", "float16", "bfloat16")
_LEVELS = (
    ("naive", "one thread, one element of a row"),
    ("warp", "one warp a row, its lanes along the columns"),
    ("vectorised", "one warp a row, 128-bit loads of four neighbours in flight, sums in float32 registers"),
    ("packed", "as many lanes a row as it has 128-bit chunks, several rows a warp, neighbours in flight tunable"),
    ("persistent", "the same by as many blocks as the device holds, which go on to the next rows"),
    (
        "balanced",
        "equal runs of entries instead of rows, so that a hub is many groups' work; parts of rows put together",
    ),
)


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the only output is an `embedding_bag` of an input or of its shares; else nothing."""
    values = _values(graph, signature) if len(graph.outputs) == 1 else None
    return tuple(ServingLevel(name, idea, "gather_segments.cu.j2", values) for name, idea in _LEVELS) if values else ()


def _values(graph: Graph, signature: Signature) -> Mapping[str, object] | None:
    matcher, out = Matcher(graph), signature.outputs[0]
    found = bag(matcher, Ref(graph.outputs[0]))
    if found is None:
        return None
    table, kind, degrees = matcher.given(found.table), found.mode, ""
    if table is None and found.mode == "sum" and (shared := shares(matcher, found.table)):
        table, pointer = shared
        kind, degrees = "shares", pointer.name
        if pointer.dtype != found.idx.dtype:
            return None
    if table is None or table.dtype not in _TYPES or len(table.shape) != 2 or out.dtype != table.dtype:
        return None
    return {
        "table": table.name,
        "idx": found.idx.name,
        "indptr": found.indptr.name,
        "degrees": degrees,
        "out": out.name,
        "kind": kind,
        "element": ELEMENT[table.dtype],
        "index": INDEX[found.idx.dtype],
        "width": VECTOR_BYTES // ITEMSIZE[table.dtype],
    }
