"""Each row's share of its gradient added to the row's neighbours, with atomics."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.gather.matching import INDEX, picked, row_numbers, shares
from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records.graph import Graph, Ref
from cutegen_core.records.problem import Signature

_LEVELS = (
    ("naive", "one thread, one element of a row's gradient, added to each neighbour with an atomic"),
    ("warp", "one warp a row, its lanes along the columns"),
    ("vectorised", "one warp a row: its gradient read once with 128-bit loads, four elements an atomic"),
    ("packed", "as many lanes a row as it has 128-bit chunks, several rows a warp"),
    ("persistent", "the same by as many blocks as the device holds, which go on to the next rows"),
    ("balanced", "equal runs of entries instead of rows, so that the row of a hub is many groups' work"),
)


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the only output is zeros to which shares are added at the places of an input; else nothing."""
    if len(graph.outputs) != 1:
        return ()
    matcher, out = Matcher(graph), signature.outputs[0]
    added = matcher.call(Ref(graph.outputs[0]), "index_add")
    if added is None or added.argument(1, "dim") != 0 or added.kwargs.get("alpha", 1) != 1:
        return ()
    zeros, idx = matcher.call(added.args[0], "new_zeros", "zeros"), matcher.given(added.args[2])
    chosen = picked(matcher, added.args[3])
    if zeros is None or idx is None or chosen is None:
        return ()
    shared, pointer = shares(matcher, chosen[0]), row_numbers(matcher, chosen[1])
    if shared is None or pointer is not shared[1] or pointer.dtype != idx.dtype or idx.dtype not in INDEX:
        return ()
    if shared[0].dtype != "float32" or out.dtype != "float32" or len(out.shape) != 2:
        return ()
    values = {
        "grad": shared[0].name,
        "idx": idx.name,
        "indptr": pointer.name,
        "out": out.name,
        "index": INDEX[idx.dtype],
        "width": 4,
    }
    return tuple(ServingLevel(name, idea, "gather_scatter.cu.j2", values) for name, idea in _LEVELS)
