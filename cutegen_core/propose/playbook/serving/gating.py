"""Top-k softmax gating: the k largest logits of each row, their ids, and their probabilities made to sum to one."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.serving.matching import Matcher, is_last, number
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Operand, Ref
from cutegen_core.records.problem import Signature

_ID_TYPES = {"int32": "int", "int64": "long long"}
_SHAPES = ((8, 4), (8, 8), (16, 8), (16, 16), (32, 16))
"""Threads of a row and logits of each thread; the smallest that holds a row is taken."""
_LEVELS = (
    ("naive", "one thread, one row: k rounds, each below the last one's logit"),
    ("warp", "one warp a row: logits in registers, a shuffle reduction a round, softmax over the winners"),
    ("groups", "8 to 32 threads a row by the number of experts, 128-bit loads, several rows a warp"),
)


def find(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu if the outputs are renormalised weights and ids of the k largest; else nothing."""
    if [o.dtype in _ID_TYPES for o in signature.outputs] not in ([False, True], [True, False]):
        return ()
    at = 1 if signature.outputs[1].dtype in _ID_TYPES else 0
    matcher = Matcher(graph)
    chosen, weighted = _ids(matcher, Ref(graph.outputs[at])), _weights(matcher, Ref(graph.outputs[1 - at]))
    if chosen is None or weighted is None or chosen[1] is not weighted[1] or chosen[0] is not weighted[0]:
        return ()
    logits, weights, ids = chosen[0], signature.outputs[1 - at], signature.outputs[at]
    if logits.dtype != "float32" or weights.dtype != "float32" or weights.shape != ids.shape:
        return ()
    values = {
        "x": logits.name,
        "weights": weights.name,
        "ids": ids.name,
        "id_type": _ID_TYPES[ids.dtype],
        "shapes": _SHAPES,
    }
    return tuple(ServingLevel(name, idea, "gating.cu.j2", values) for name, idea in _LEVELS)


def _ids(matcher: Matcher, operand: Operand) -> tuple[Node, Node] | None:
    """Return the logits, and the node of the first k places of a stable falling sort of them."""
    taken = matcher.call(operand, "narrow")
    start = number(taken.argument(2, "start")) if taken else None
    item = matcher.node(taken.args[0]) if taken and start == 0.0 and is_last(taken, 1) else None
    if taken is None or item is None or item.op != "getitem" or item.args[1] != 1:
        return None
    order = matcher.call(item.args[0], "sort")
    dim = order.argument(1, "dim") if order else None
    if order is None or order.argument(99, "descending") is not True or order.argument(99, "stable") is not True:
        return None
    logits = matcher.given(order.args[0])
    last = dim in (None, -1, len(order.shape) - 1)
    return (logits, taken) if logits is not None and last and len(logits.shape) == 2 else None


def _weights(matcher: Matcher, operand: Operand) -> tuple[Node, Node] | None:
    """Match g / g.sum(-1, keepdim) with g = softmax(logits, -1).gather(-1, ids); return logits and ids."""
    divided = matcher.pair(operand, "div")
    gathered = matcher.call(divided[0], "gather") if divided else None
    total = matcher.reduction(divided[1], "sum") if divided else None
    if gathered is None or total is None or matcher.node(total.args[0]) is not gathered or not is_last(gathered, 1):
        return None
    soft, ids = matcher.call(gathered.args[0], "softmax"), matcher.node(gathered.argument(2, "index"))
    if soft is None or ids is None or ops.name(ids) != "narrow" or not is_last(soft, 1):
        return None
    logits = matcher.given(soft.args[0])
    return (logits, ids) if logits is not None else None
