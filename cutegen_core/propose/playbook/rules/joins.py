"""Rules of what is joined, padded, repeated, or put in another order."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import apply, cast, mul, sub
from cutegen_core.propose.playbook.rules.taken import in_one, length_of
from cutegen_core.propose.playbook.values import (
    ONE,
    ZERO,
    Constant,
    Extent,
    Join,
    Load,
    Move,
    Scan,
    Value,
    agree,
    combined,
    compute,
    computed,
    constant,
    expand,
    extent,
    fits,
    flip,
    is_constant,
    opposite,
    permute,
    position,
    product,
    reshape,
    reshaped,
    unsqueeze,
    window,
)

_MOST_COPIES = 8
"""Each piece of what is joined has a kernel of its own; more copies than these have one together."""


def _flip(call: OperationCall) -> Value:
    return _flipped(call.tensor(0), call.integers(1, "dims"))


def _flipped(value: Value, axes: tuple[int, ...]) -> Value:
    for axis in axes:
        value = flip(value, axis)
    return value


def _pieces(call: OperationCall) -> list[Value]:
    pieces = call.tensors(0)
    if not pieces:
        raise not_in_playbook("what joins nothing")
    return [cast(p, call.node.dtype) for p in pieces if not _is_empty(p)] or pieces[:1]


def _is_empty(value: Value) -> bool:
    return any(dim.nothing for dim in value.dims)


def _cat(call: OperationCall) -> Value:
    pieces = _pieces(call)
    return join(pieces, int(call.number(1, "dim", 0)) % len(pieces[0].dims))


def _stack(call: OperationCall) -> Value:
    axis = int(call.number(1, "dim", 0)) % len(call.node.shape)
    return join([unsqueeze(piece, axis) for piece in _pieces(call)], axis)


def _joined_along(axis: int) -> Rule:
    """Return a rule for tensors joined along a dimension, given at least so many; vectors along their only one."""

    def rule(call: OperationCall) -> Value:
        pieces = _pieces(call)
        if axis == 0:
            pieces = [unsqueeze(p, 0) if len(p.dims) == 1 else p for p in pieces]
        return join(pieces, min(axis, len(pieces[0].dims) - 1))

    return rule


def _pad(call: OperationCall) -> Value:
    """Return the operand between pieces of one number, or of its own elements; a negative number of elements is cut."""
    x, amounts = call.tensor(0), call.integers(1, "pad")
    mode, number = ("constant", 2) if call.node.op.endswith("constant_pad_nd") else (call.operand(2, "mode"), 3)
    edge = _EDGES.get(str(mode or "constant"))
    if edge is None:
        raise not_in_playbook(f"padding of mode {mode!r}")
    value = call.operand(number, "value")
    filling = constant(value if isinstance(value, int | float) else 0, x.dtype)
    for k in range(len(amounts) // 2):
        axis = len(x.dims) - 1 - k
        before, after = amounts[2 * k : 2 * k + 2]
        first, rest = (_above_nothing(opposite(n)) for n in (before, after))
        for cut, start in ((first, first), (rest, ZERO)):
            if cut is not ZERO:
                length = combined(f"({x.dims[axis].text} - {cut.text})", operator.sub, x.dims[axis], cut)
                x = window(x, axis, start, length)
        if x.dims[axis].size < 1:
            raise not_in_playbook("padding that leaves nothing of its operand")
        added = [_above_nothing(extent(n)) for n in (before, after)]
        ends = zip(added, (False, True), strict=True)
        edges = [[] if n is ZERO else [edge(x, axis, n, filling, last)] for n, last in ends]
        pieces = [*edges[0], x, *edges[1]]
        x = join(pieces, axis) if len(pieces) > 1 else x
    return x


def _above_nothing(amount: Extent) -> Extent:
    """Return an amount where it is above 0 and nothing elsewhere; ZERO where it never is, as far as that is known."""
    seen = amount.everywhere or (amount.size,)
    if max(seen) <= 0:
        return ZERO
    if min(seen) > 0:
        return amount
    return replace(amount if min(seen) == 0 else computed("max({}, 0)", lambda n: max(n, 0), amount), may_be_none=True)


def _filled(x: Value, axis: int, length: Extent, filling: Value, last: bool) -> Value:
    return expand(filling, (*x.dims[:axis], length, *x.dims[axis + 1 :]))


def _replicated(x: Value, axis: int, length: Extent, filling: Value, last: bool) -> Value:
    edge = window(x, axis, x.dims[axis].less(ONE) if last else ZERO, ONE)
    return expand(edge, (*x.dims[:axis], length, *x.dims[axis + 1 :]))


def _reflected(x: Value, axis: int, length: Extent, filling: Value, last: bool) -> Value:
    return flip(window(x, axis, x.dims[axis].less(length.plus(ONE)) if last else ONE, length), axis)


def _circular(x: Value, axis: int, length: Extent, filling: Value, last: bool) -> Value:
    return window(x, axis, ZERO if last else x.dims[axis].less(length), length)


_EDGES = {"constant": _filled, "replicate": _replicated, "reflect": _reflected, "circular": _circular}
"""What stands before the first and behind the last elements of a dimension, by the mode of padding."""


def _diff(call: OperationCall) -> Value:
    x, times, axis = call.tensor(0), int(call.number(1, "n", 1)), int(call.number(2, "dim", -1))
    if x.dtype == "bool":
        raise not_in_playbook("a difference of truth values")
    before, after = (call.tensor(*at) if call.has(*at) else None for at in ((3, "prepend"), (4, "append")))
    pieces = [piece for piece in (before, x, after) if piece is not None]
    x = join(pieces, axis % len(x.dims)) if len(pieces) > 1 else x
    for _ in range(times):
        less = x.dims[axis].less(ONE)
        x = sub(window(x, axis, ONE, less), window(x, axis, ZERO, less))
    return x


def _rot90(call: OperationCall) -> Value:
    x, turns = call.tensor(0), int(call.number(1, "k", 1)) % 4
    first, second = (axis % len(x.dims) for axis in call.integers(2, "dims") or (0, 1))
    order = list(range(len(x.dims)))
    order[first], order[second] = second, first
    if turns == 2:
        return flip(flip(x, first), second)
    return x if turns == 0 else permute(flip(x, second if turns == 1 else first), order)


def _roll(call: OperationCall) -> Value:
    x, shifts, axes = call.tensor(0), call.integers(1, "shifts"), call.integers(2, "dims")
    if not axes:
        return reshaped(_rolled(reshaped(x, (product(x.dims),)), shifts, (0,)), x.dims)
    return _rolled(x, shifts, axes)


def _rolled(x: Value, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    for shift, axis in zip(shifts, (a % len(x.dims) for a in axes), strict=True):
        whole, by = x.dims[axis], extent(shift) if shift >= 0 else opposite(shift)
        divisor = f"({whole.text})" if " * " in whole.text else whole.text
        turned = combined(f"({by.text} % {divisor})", lambda n, s: s % max(n, 1), whole, by)
        left = combined(f"({whole.text} - {turned.text})", operator.sub, whole, turned)
        first, rest = (left, turned) if shift > 0 else (turned, left)
        if not all(turned.everywhere) and not turned.nothing:  # somewhere it is whole turns
            x = in_one(x, axis, _behind(whole, first))
        elif turned.size:
            x = join([window(x, axis, first, rest), window(x, axis, ZERO, first)], axis)
    return x


def _behind(whole: Extent, first: Extent) -> Value:
    """Return the places from `first` on, and behind the last one those from the beginning."""
    place, numbers = position((whole,), 0), (length_of(one) for one in (first, whole))
    return compute("({0} + {1}) % {2}", place, *numbers, dtype="int64")


def _repeat(call: OperationCall) -> Value:
    """Return copies along dimensions: broadcast where the operand has one element there, else joined."""
    x, times = call.tensor(0), call.integers(1, "repeats") or call.integers(1, "dims")
    for _ in range(len(times) - len(x.dims)):
        x = unsqueeze(x, 0)
    for axis, n in enumerate(reversed(times)):
        place = len(x.dims) - 1 - axis
        if x.dims[place].single:
            x = expand(x, (*x.dims[:place], extent(n), *x.dims[place + 1 :]))
        elif n > _MOST_COPIES or not is_constant(n):
            x = _copied(x, place, extent(n))
        elif n > 1:
            x = join([x] * n, place)
    return x


def _repeat_interleave(call: OperationCall) -> Value:
    x, times, axes = call.tensor(0), call.operand(1, "repeats"), call.integers(2, "dim")
    if not isinstance(times, int):
        raise not_in_playbook("repeat_interleave by a tensor")
    if not axes:
        x, axes = reshaped(x, (product(x.dims),)), (0,)
    return reshape(_drawn_out(x, axes[0] % len(x.dims), extent(times)), call.node.shape)


def _copied(x: Value, axis: int, times: Extent) -> Value:
    """Return so many copies, one behind the other along a dimension, written by one kernel."""
    apart = unsqueeze(x, axis)
    apart = expand(apart, (*apart.dims[:axis], times, *apart.dims[axis + 1 :]))
    return reshaped(apart, (*x.dims[:axis], times.times(x.dims[axis]), *x.dims[axis + 1 :]))


def _drawn_out(x: Value, axis: int, times: Extent) -> Value:
    """Return each element so many times, along a new dimension behind its own."""
    apart = unsqueeze(x, axis + 1)
    return expand(apart, (*apart.dims[: axis + 1], times, *apart.dims[axis + 2 :]))


def drawn_out_to(x: Value, shape: tuple[int, ...]) -> Value | None:
    """Return each element as often as its dimensions behind the second are longer in this shape; None where that is no
    whole number of times."""
    for axis in range(len(shape) - 1, 1, -1):
        own = x.dims[axis]
        times = combined("", lambda longer, n: longer // max(n, 1), Extent("", shape[axis]), own)
        if not fits((own.times(times),), (shape[axis],)):
            return None
        same = len(set(times.everywhere)) < 2
        text = str(int(times.size)) if same else f"({extent(shape[axis]).text} // {own.text})"
        x = _drawn_out(x, axis, replace(times, text=text))
    return reshape(x, shape)


def _pixel_shuffle(call: OperationCall) -> Value:
    x, r = call.tensor(0), call.integers(1)[0]
    lead, (height, width) = x.sizes[:-3], x.sizes[-2:]
    at = len(lead)
    apart = reshape(x, (*lead, call.node.shape[-3], r, r, height, width), inferred=at)
    order = (*range(at + 1), at + 3, at + 1, at + 4, at + 2)
    return reshape(permute(apart, order), call.node.shape)


def _pixel_unshuffle(call: OperationCall) -> Value:
    x, r = call.tensor(0), call.integers(1)[0]
    lead, (height, width) = x.sizes[:-2], call.node.shape[-2:]
    at = len(lead)
    apart = reshape(x, (*lead, height, r, width, r))
    return reshape(permute(apart, (*range(at), at + 1, at + 3, at, at + 2)), call.node.shape)


def _channel_shuffle(call: OperationCall) -> Value:
    x, groups = call.tensor(0), call.integers(1)[0]
    apart = reshape(x, (x.sizes[0], groups, x.sizes[1] // groups, *x.sizes[2:]), inferred=2)
    return reshape(permute(apart, (0, 2, 1, *range(3, len(apart.dims)))), call.node.shape)


def _glu(call: OperationCall) -> Value:
    x, axis = call.tensor(0), int(call.number(1, "dim", -1)) % len(call.tensor(0).dims)
    whole = x.dims[axis]
    half = combined(f"({whole.text} // 2)", lambda n: n // 2, whole)
    return mul(window(x, axis, ZERO, half), apply("sigmoid", window(x, axis, half, half)))


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
    if not agree([whole], [value.dims[axis].plus(ONE)]) or not value.offset.nothing:
        return None
    return replace(value, dims=(*value.dims[:-1], whole))


def _column_stack(call: OperationCall) -> Value:
    return join([unsqueeze(p, 1) if len(p.dims) == 1 else p for p in _pieces(call)], 1)


def _dstack(call: OperationCall) -> Value:
    return join([_three_deep(piece) for piece in _pieces(call)], 2)


def _three_deep(piece: Value) -> Value:
    """Return a vector as a row, and a matrix as it is, with one element along a third dimension."""
    piece = unsqueeze(piece, 0) if len(piece.dims) < 2 else piece
    return unsqueeze(piece, 2) if len(piece.dims) == 2 else piece


def _block_diag(call: OperationCall) -> Value:
    """Return matrices along a diagonal, with zeros beside them."""
    pieces = [reshaped(p, (ONE, product(p.dims))) if len(p.dims) < 2 else p for p in _pieces(call)]
    rows = []
    for piece in pieces:
        zeros = [expand(constant(0, piece.dtype), (piece.dims[0], other.dims[1])) for other in pieces]
        rows.append(join([piece if one is piece else z for one, z in zip(pieces, zeros, strict=True)], 1))
    return join(rows, 0)


RULES: Mapping[str, Rule] = {
    "flip": _flip, "fliplr": lambda c: _flipped(c.tensor(0), (1,)), "flipud": lambda c: _flipped(c.tensor(0), (0,)),
    "cat": _cat, "stack": _stack, "vstack": _joined_along(0), "hstack": _joined_along(1), "pad": _pad,
    "column_stack": _column_stack, "dstack": _dstack, "block_diag": _block_diag,
    "constant_pad_nd": _pad, "roll": _roll, "repeat": _repeat, "tile": _repeat,
    "repeat_interleave": _repeat_interleave, "pixel_shuffle": _pixel_shuffle, "glu": _glu,
    "pixel_unshuffle": _pixel_unshuffle, "channel_shuffle": _channel_shuffle,
    "diff": _diff, "rot90": _rot90,
}  # fmt: skip
