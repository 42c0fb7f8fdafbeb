"""Rules of the views, which move coordinates and no data, which are of the same memory."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.values import (
    ONE,
    Extent,
    Sized,
    Value,
    agree,
    at_most,
    combined,
    expand,
    extent,
    fits,
    is_constant,
    opposite,
    permute,
    reshape,
    squeeze,
    stride,
    unsqueeze,
    window,
    windows,
)
from cutegen_core.records.graph import Ref


def _transpose(call: OperationCall) -> Value:
    value = call.tensor(0)
    order = list(range(len(value.dims)))
    if len(order) > 1:
        a, b = call.integers(1)[0] if call.has(1) else 0, call.integers(2)[0] if call.has(2) else 1
        order[a], order[b] = order[b], order[a]
    return permute(value, order)


def _reverse(call: OperationCall) -> Value:
    value = call.tensor(0)
    return permute(value, list(reversed(range(len(value.dims)))))


def _transpose_last(call: OperationCall) -> Value:
    order = list(range(len(call.tensor(0).dims)))
    return permute(call.tensor(0), [*order[:-2], order[-1], order[-2]])


def _movedim(call: OperationCall) -> Value:
    value, rank = call.tensor(0), len(call.tensor(0).dims)
    sources, targets = ([a % rank for a in call.integers(i)] for i in (1, 2))
    rest = iter(k for k in range(rank) if k not in sources)
    moved = dict(zip(targets, sources, strict=True))
    return permute(value, [moved[k] if k in moved else next(rest) for k in range(rank)])


def _reshape(call: OperationCall) -> Value:
    asked = call.integers(1)
    inferred = asked.index(-1) if -1 in asked and len(asked) == len(call.node.shape) else -1
    return reshape(call.tensor(0), call.node.shape, inferred)


def _squeeze(call: OperationCall) -> Value:
    value = call.tensor(0)
    axes = [a % len(value.dims) for a in call.integers(1, "dim")] if call.has(1, "dim") else range(len(value.dims))
    return squeeze(value, [a for a in axes if value.dims[a].single])


def _expand(call: OperationCall) -> Value:
    value = call.tensor(0)
    lead = len(call.node.shape) - len(value.dims)
    dims = []
    for k, size in enumerate(call.node.shape):
        own = value.dims[k - lead] if k >= lead else None
        dims.append(own if own is not None and fits([own], [size]) else extent(size))
    return expand(value, tuple(dims))


def _getitem(call: OperationCall) -> Value:
    source, index = call.operand(0), call.operand(1)
    if isinstance(index, int) and not is_constant(index):
        raise not_in_playbook("a piece whose number changes with the sizes")
    if isinstance(source, Ref) and f"{source.node}[{index}]" in call.values:
        return call.values[f"{source.node}[{index}]"]
    if isinstance(source, Ref) and index == 0 and source.node in call.values:
        return call.values[source.node]
    raise not_in_playbook(f"result {index} of '{source.node if isinstance(source, Ref) else source}'")


def _slice(call: OperationCall) -> Value:
    x, axis = call.tensor(0), int(call.number(1, "dim", 0))
    whole, step = x.dims[axis], call.number(4, "step", 1)
    if not is_constant(step):
        raise not_in_playbook("a slice whose step changes with the sizes")
    start, end = (call.operand(i) for i in (2, 3))
    first = position_of(start if isinstance(start, int) else 0, whole)
    last = position_of(end if isinstance(end, int) else whole.size, whole)
    if first.nothing and agree([last], [whole]):
        return x if step == 1 else stride(x, axis, int(step))
    part = window(x, axis, first, last.less(first))
    return part if step == 1 else stride(part, axis, int(step))


def position_of(index: int, whole: Extent) -> Extent:
    """Return a slice's bound as an expression.

    Where the graph does not say how the bound follows the sizes, half of a size is taken to stay half of it.
    """
    if isinstance(index, Sized) and 0 <= index < whole.size:
        return at_most(extent(index), whole)
    if index < 0:
        return whole.less(opposite(index))
    if index >= whole.size:
        return at_most(extent(index), whole) if isinstance(index, Sized) and index.text else whole
    two = Extent("2", 2)
    halved = combined(f"({whole.text} // 2)", operator.floordiv, whole, two)
    return halved if 2 * index == whole.size else Extent(str(index), index)


def _narrow(call: OperationCall) -> Value:
    x, axis, first = call.tensor(0), int(call.number(1, "dim", 0)), call.number(2, "start", 0)
    length = call.node.shape[axis]
    if first == 0 and fits([x.dims[axis]], [length]):
        return x
    # Where the graph does not say how the length follows the sizes, what is cut off is taken to be always as long.
    shorter = Extent(f"({x.dims[axis].text} - {x.sizes[axis] - length})", length)
    return window(x, axis, extent(first), extent(length) if isinstance(length, Sized) else shorter)


def _unfold(call: OperationCall) -> Value:
    x, given = call.tensor(0), ((1, "dimension"), (2, "size"), (3, "step"))
    (axis,), (length,), (step,) = (call.integers(index, name) for index, name in given)
    return windows(x, axis % len(x.dims), length, step)


def _select(call: OperationCall) -> Value:
    x, (index,) = call.tensor(0), call.integers(2, "index")
    axis = int(call.number(1, "dim", 0)) % len(x.dims)
    return squeeze(window(x, axis, position_of(index, x.dims[axis]), ONE), (axis,))


RULES: Mapping[str, Rule] = {
    "t": _transpose, "transpose": _transpose, "numpy_T": _reverse, "mT": _transpose_last, "permute": lambda c: permute(
        c.tensor(0), c.integers(1)), "view": _reshape, "reshape": _reshape,
    "flatten": lambda c: reshape(c.tensor(0), c.node.shape, -1),
    "_unsafe_view": _reshape, "unflatten": _reshape, "unsqueeze": lambda c: unsqueeze(
        c.tensor(0), c.integers(1)[0]), "squeeze": _squeeze, "expand": _expand, "expand_as": _expand,
    "slice": _slice, "narrow": _narrow, "select": _select, "unfold": _unfold, "getitem": _getitem,
    "view_as": _reshape, "reshape_as": _reshape, "ravel": _reshape, "atleast_1d": _reshape, "atleast_2d": _reshape,
    "movedim": _movedim, "mH": _transpose_last, "adjoint": _transpose_last, "matrix_H": _transpose_last,
}  # fmt: skip
