"""Rules of cumulative sums and products, of flips, and of what is joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.values import Constant, Extent, Join, Load, Move, Scan, Value, flip, unsqueeze
from cutegen_core.records.graph import Ref


def _scan(kind: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        x, (axis,) = cast(call.tensor(0), call.node.dtype), call.integers(1, "dim")
        return Scan(x.dims, x.dtype, kind, x, axis % len(x.dims))

    return rule


def _flip(call: OperationCall) -> Value:
    value = call.tensor(0)
    for axis in call.integers(1, "dims"):
        value = flip(value, axis)
    return value


def _cat(call: OperationCall) -> Value:
    tensors = call.operand(0)
    pieces = [call.values[t.node] for t in tensors if isinstance(t, Ref)] if isinstance(tensors, tuple) else []
    if not pieces:
        raise not_in_playbook("what joins nothing")
    axis = int(call.number(1, "dim", 0)) % len(pieces[0].dims)
    return join([cast(p, call.node.dtype) for p in pieces if not _is_empty(p)] or pieces[:1], axis)


def _stack(call: OperationCall) -> Value:
    tensors, axis = call.operand(0), int(call.number(1, "dim", 0)) % len(call.node.shape)
    pieces = [call.values[t.node] for t in tensors if isinstance(t, Ref)] if isinstance(tensors, tuple) else []
    return join([unsqueeze(cast(p, call.node.dtype), axis) for p in pieces], axis)


def _is_empty(value: Value) -> bool:
    return any(dim.size == 0 and not any(dim.everywhere) for dim in value.dims)


def join(pieces: list[Value], axis: int) -> Value:
    """Return values one after the other; a scan that comes one element late, after a zero, is an exclusive scan."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 2 and first.dims[axis].text == "1" and _is_zero(first) and isinstance(last, Scan):
        whole = _one_longer(last.operand, axis)
        plain = last.kind == "sum" and not last.backwards and not last.exclusive and last.axis == axis
        if whole is not None and plain:
            return replace(last, dims=whole.dims, operand=whole, exclusive=True)
    total = pieces[0].dims[axis]
    for piece in pieces[1:]:
        total = total.plus(piece.dims[axis])
    dims = (*first.dims[:axis], total, *first.dims[axis + 1 :])
    return Join(dims, first.dtype, tuple(pieces), axis)


def _is_zero(value: Value) -> bool:
    while isinstance(value, Move):
        value = value.operand
    return isinstance(value, Constant) and value.number == 0


def _one_longer(value: Value, axis: int) -> Load | None:
    """Return rows with the element behind their last one, where a tensor in memory has one for each of them."""
    if not isinstance(value, Load) or axis == 0 or axis != len(value.dims) - 1 or value.strides[axis].text != "1":
        return None
    whole: Extent = value.strides[axis - 1]
    if whole.size != value.dims[axis].size + 1 or value.offset.size:
        return None
    return replace(value, dims=(*value.dims[:-1], whole))


RULES: Mapping[str, Rule] = {
    "cumsum": _scan("sum"), "cumprod": _scan("times"), "flip": _flip, "cat": _cat, "stack": _stack,
}  # fmt: skip
