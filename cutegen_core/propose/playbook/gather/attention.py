"""Graph attention: a softmax over each row's neighbours, and their weighted sum, for each head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.propose.playbook.gather.matching import INDEX, counts_from_end, picked, row_numbers
from cutegen_core.propose.playbook.serving.matching import Matcher, number
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Signature

_LEVELS = (
    ("naive", "one thread, one element: the largest score, then weights and their sum, over the row's neighbours"),
    ("warp", "one warp a row and head, its lanes along the columns"),
    ("vectorised", "one warp a row and head, 128-bit loads of four neighbours in flight"),
    ("packed", "as many lanes a row and head as it has 128-bit chunks, several a warp"),
    ("persistent", "the same by as many blocks as the device holds, which go on to the next rows"),
)


class _Scores(NamedTuple):
    source: Node
    target: Node
    idx: Node
    slope: float


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the only output is such a sum; else nothing."""
    if len(graph.outputs) != 1:
        return ()
    matcher, out = Matcher(graph), signature.outputs[0]
    added = _added(matcher, Ref(graph.outputs[0]))
    product = matcher.pair(added[1], "mul") if added else None
    if added is None or product is None:
        return ()
    pointer, column = added[0], matcher.call(product[0], "unsqueeze")
    rows = picked(matcher, product[1]) if not counts_from_end(matcher, product[1]) else None
    table = matcher.given(rows[0]) if rows else None
    scores = _softmax(matcher, column.args[0], pointer) if column is not None else None
    if rows is None or table is None or scores is None or matcher.given(rows[1]) is not scores.idx:
        return ()
    inputs = (table, scores.source, scores.target)
    whole = {node.dtype for node in (scores.idx, pointer)}
    shaped = [len(node.shape) for node in inputs] == [3, 2, 2] and out.shape == (*scores.target.shape, table.shape[2])
    if not shaped or {node.dtype for node in inputs} != {"float32"} or len(whole) != 1 or not whole <= set(INDEX):
        return ()
    values = {
        "table": table.name,
        "source": scores.source.name,
        "target": scores.target.name,
        "idx": scores.idx.name,
        "indptr": pointer.name,
        "out": out.name,
        "slope": f"{scores.slope!r}f",
        "index": INDEX[pointer.dtype],
        "width": 4,
    }
    return tuple(ServingLevel(name, idea, "gather_attention.cu.j2", values) for name, idea in _LEVELS)


def _added(matcher: Matcher, operand: Operand) -> tuple[Node, Operand] | None:
    """Match zeros.index_add(0, row numbers, x); return the row pointer and x."""
    node = matcher.call(operand, "index_add")
    if node is None or node.argument(1, "dim") != 0 or node.kwargs.get("alpha", 1) != 1:
        return None
    zeros, pointer = matcher.call(node.args[0], "new_zeros", "zeros", "zeros_like"), row_numbers(matcher, node.args[2])
    return (pointer, node.args[3]) if zeros is not None and pointer is not None else None


def _softmax(matcher: Matcher, operand: Operand, pointer: Node) -> _Scores | None:
    """Match w / total[rows] with w = exp(score - largest[rows]), total its sum and largest its maximum by row."""
    divided = matcher.pair(operand, "div")
    weight = matcher.call(divided[0], "exp") if divided else None
    total = _by_row(matcher, divided[1], pointer) if divided else None
    added = _added(matcher, total) if total is not None else None
    shifted = matcher.pair(weight.args[0], "sub") if weight is not None else None
    if added is None or shifted is None or added[0] is not pointer or matcher.node(added[1]) is not weight:
        return None
    scores, largest = matcher.node(shifted[0]), _by_row(matcher, shifted[1], pointer)
    if scores is None or largest is None or not _is_largest(matcher, largest, scores, pointer):
        return None
    return _scores(matcher, shifted[0], pointer)


def _by_row(matcher: Matcher, operand: Operand, pointer: Node) -> Operand | None:
    """Return x of x[row numbers]."""
    rows = picked(matcher, operand)
    return rows[0] if rows and row_numbers(matcher, rows[1]) is pointer else None


def _is_largest(matcher: Matcher, operand: Operand, scores: Node, pointer: Node) -> bool:
    """Tell whether this is full(-inf).scatter_reduce(0, row numbers, scores, "amax")."""
    node = matcher.call(operand, "scatter_reduce")
    if node is None or node.argument(1, "dim") != 0 or node.argument(4, "reduce") != "amax":
        return False
    base = matcher.call(node.args[0], "full_like", "new_full", "full")
    places = matcher.call(node.args[2], "expand_as", "expand")
    column = matcher.call(places.args[0], "unsqueeze") if places is not None else None
    if base is None or base.args[-1] != float("-inf") or column is None or column.argument(1, "dim") not in (1, -1):
        return False
    return matcher.node(node.args[3]) is scores and row_numbers(matcher, column.args[0]) is pointer


def _scores(matcher: Matcher, operand: Operand, pointer: Node) -> _Scores | None:
    """Match leaky_relu(source[idx] + target[row numbers], slope)."""
    leaky = matcher.call(operand, "leaky_relu")
    pair = matcher.pair(leaky.args[0], "add") if leaky is not None else None
    slope = number(leaky.argument(1, "negative_slope")) if leaky is not None else None
    if pair is None or slope is None:
        return None
    for first, second in (pair, pair[::-1]):
        rows, target = picked(matcher, first), _by_row(matcher, second, pointer)
        source, idx = (matcher.given(rows[0]), matcher.given(rows[1])) if rows else (None, None)
        given = matcher.given(target) if target is not None else None
        if source is not None and idx is not None and given is not None:
            return _Scores(source, given, idx, slope)
    return None
