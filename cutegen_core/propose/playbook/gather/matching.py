"""Look through a traced graph for the parts that kernels over a row pointer (CSR) have in common."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.propose.playbook.serving.matching import Matcher
from cutegen_core.records.graph import Node, Operand

INDEX = {"int32": "int", "int64": "long long"}
"""Dtypes of indices and row pointers, as C++ has them."""

_TO_THE_END = 1 << 62
_MODES = ("sum", "mean")


class Bag(NamedTuple):
    """One `embedding_bag`: the operand it looks rows up in, the inputs that say which, and "sum" or "mean"."""

    table: Operand
    idx: Node
    indptr: Node
    mode: str


def bag(matcher: Matcher, operand: Operand) -> Bag | None:
    """Match an `embedding_bag` whose last offset is the end, without weights and padding."""
    item = matcher.node(operand)
    if item is None or item.op != "getitem" or item.args[1] != 0:
        return None
    node = matcher.call(item.args[0], "embedding_bag")
    if node is None or node.argument(7, "include_last_offset") is not True:
        return None
    mode = node.argument(4, "mode")
    plain = node.argument(3, "scale_grad_by_freq") in (None, False) and node.argument(6, "per_sample_weights") is None
    unpadded = node.argument(8, "padding_idx") in (None, -1)
    idx, indptr = matcher.given(node.args[1]), matcher.given(node.args[2])
    if not plain or not unpadded or idx is None or indptr is None or mode not in (0, 1) or isinstance(mode, bool):
        return None
    same = idx.dtype == indptr.dtype and idx.dtype in INDEX and len(idx.shape) == len(indptr.shape) == 1
    return Bag(node.args[0], idx, indptr, _MODES[int(mode)]) if same else None


def degrees(matcher: Matcher, operand: Operand) -> Node | None:
    """Return the row pointer p of p[1:] - p[:-1]."""
    pair = matcher.pair(operand, "sub")
    if pair is None:
        return None
    upper, lower = matcher.call(pair[0], "slice"), matcher.call(pair[1], "slice")
    if upper is None or lower is None or not _is_part(upper, 1, None) or not _is_part(lower, 0, -1):
        return None
    pointer = matcher.given(upper.args[0])
    same = pointer is not None and matcher.given(lower.args[0]) is pointer and len(pointer.shape) == 1
    return pointer if same else None


def _is_part(node: Node, start: int, end: int | None) -> bool:
    """Tell whether a slice along the first dimension has these ends; `end` None is that of the tensor."""
    if node.argument(1, "dim") not in (None, 0) or node.argument(4, "step") not in (None, 1):
        return False
    found = node.argument(3, "end")
    at_end = found is None or (isinstance(found, int) and found >= _TO_THE_END)
    return node.argument(2, "start") in ((None, 0) if start == 0 else (start,)) and (
        at_end if end is None else found == end
    )


def row_numbers(matcher: Matcher, operand: Operand) -> Node | None:
    """Return the row pointer of repeat_interleave(arange(rows), degrees): for each entry, the row it belongs to."""
    node = matcher.call(operand, "repeat_interleave")
    pointer = degrees(matcher, node.args[1]) if node is not None and len(node.args) == 2 else None
    counted = matcher.call(node.args[0], "arange") if node is not None else None
    if pointer is None or counted is None or len(counted.args) != 1:
        return None
    return pointer if counted.args[0] == pointer.shape[0] - 1 else None


def shares(matcher: Matcher, operand: Operand) -> tuple[Node, Node] | None:
    """Match x / max(degrees, 1), a row each; return x and the row pointer."""
    divided = matcher.pair(operand, "div")
    column = matcher.call(divided[1], "unsqueeze") if divided else None
    clamped = matcher.call(column.args[0], "clamp", "clamp_min") if column is not None else None
    if divided is None or column is None or clamped is None or column.argument(1, "dim") not in (1, -1):
        return None
    if clamped.argument(1, "min") != 1 or clamped.argument(2, "max") is not None:
        return None
    pointer, given = degrees(matcher, clamped.args[0]), matcher.given(divided[0])
    return (given, pointer) if given is not None and pointer is not None and len(given.shape) == 2 else None


def picked(matcher: Matcher, operand: Operand) -> tuple[Operand, Operand] | None:
    """Match rows by index along the first dimension: x.index_select(0, i), x[i] or embedding(i, x); return x and i.

    Indices of x[i] that are less than 0 count from the end (`counts_from_end`).
    """
    node = matcher.call(operand, "index_select", "index", "embedding")
    if node is None:
        return None
    if node.op.endswith("index_select"):
        return (node.args[0], node.args[2]) if node.argument(1, "dim") == 0 else None
    if node.op.endswith("embedding"):
        return node.args[0], node.args[1]
    places = node.args[1]
    single = isinstance(places, tuple) and len(places) == 1
    return (node.args[0], places[0]) if isinstance(places, tuple) and single else None


def counts_from_end(matcher: Matcher, operand: Operand) -> bool:
    """Return whether rows are picked by an input that may count from the end."""
    node = matcher.call(operand, "index")
    rows = picked(matcher, operand) if node is not None else None
    return rows is not None and matcher.given(rows[1]) is not None
