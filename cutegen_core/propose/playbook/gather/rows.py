"""Rows of a table by index."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.gather.matching import INDEX, counts_from_end, picked
from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.records.graph import Graph, Ref
from cutegen_core.records.problem import ITEMSIZE, Signature

_TYPES = ("float32", "float16", "bfloat16")
_LEVELS = (
    ("naive", "one thread, one element"),
    ("warp", "one warp a row, its lanes along the columns"),
    ("vectorised", "one warp for four rows at a time: indices, then 128-bit loads of all four, then the stores"),
    ("packed", "as many lanes a row as it has 128-bit chunks, several rows a warp, rows in flight tunable"),
    ("persistent", "the same by as many blocks as the device holds, which go on to the next rows"),
)


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the only output is an input's rows at the places that another input names; else nothing."""
    if len(graph.outputs) != 1:
        return ()
    matcher = Matcher(graph)
    pair = picked(matcher, Ref(graph.outputs[0]))
    table, idx = (matcher.given(pair[0]), matcher.given(pair[1])) if pair else (None, None)
    out = signature.outputs[0]
    if table is None or idx is None or table.dtype not in _TYPES or idx.dtype not in INDEX:
        return ()
    if out.dtype != table.dtype or len(idx.shape) != 1 or out.shape != (*idx.shape, *table.shape[1:]):
        return ()
    values = {
        "table": table.name,
        "idx": idx.name,
        "out": out.name,
        "element": ELEMENT[table.dtype],
        "index": INDEX[idx.dtype],
        "width": VECTOR_BYTES // ITEMSIZE[table.dtype],
        "wraps": counts_from_end(matcher, Ref(graph.outputs[0])),
    }
    return tuple(ServingLevel(name, idea, "gather_rows.cu.j2", values) for name, idea in _LEVELS)
