"""Rules of what is written into a tensor at places: parts of it, or elements whose places other tensors hold.

Each element of the result looks for what is written to it: a few places along a dimension are as many comparisons an
element; many are sorted, so that those of an element lie next to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import FLOATS, OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, cast, like, mul
from cutegen_core.propose.playbook.rules.taken import along, followed, from_either_end, in_one, length_of
from cutegen_core.propose.playbook.rules.views import position_of
from cutegen_core.propose.playbook.triangles import triangle
from cutegen_core.propose.playbook.values import (
    ONE,
    Extent,
    Move,
    Reshape,
    SegmentReduce,
    Sorted,
    Value,
    agree,
    broadcast,
    compute,
    constant,
    expand,
    extent,
    is_constant,
    permute,
    position,
    product,
    reduce,
    reshaped,
    squeeze,
    unsqueeze,
    window,
)
from cutegen_core.records.graph import Ref

_MOST_COMPARED = 64
_CHOSEN = "{0} ? {1} : {2}"


def _one_hot(call: OperationCall) -> Value:
    x, classes = call.tensor(0), extent(call.node.shape[-1])
    hit = compute("{0} == {1}", position((classes,), 0), unsqueeze(x, len(x.dims)), dtype="bool")
    return cast(hit, call.node.dtype)


def _eye(call: OperationCall) -> Value:
    rows, columns = (extent(size) for size in call.node.shape)
    hit = compute("{0} == {1}", position((rows, ONE), 0), position((columns,), 0), dtype="bool")
    return cast(hit, call.node.dtype)


def _diag_embed(call: OperationCall) -> Value:
    """Return matrices of which the diagonals are the operand's last dimension."""
    x, rank = call.tensor(0), len(call.node.shape)
    first, second = (int(call.number(k, name, d)) % rank for k, name, d in ((2, "dim1", -2), (3, "dim2", -1)))
    if call.number(1, "offset", 0):
        raise not_in_playbook("matrices of a diagonal with an offset")
    square = (*x.dims[:-1], x.dims[-1], x.dims[-1])
    made = triangle(expand(unsqueeze(x, -2), square), "==", 0)
    rest = iter(range(rank - 2))
    order = [rank - 2 if k == first else rank - 1 if k == second else next(rest) for k in range(rank)]
    return permute(made, order)


def _all_of_it(call: OperationCall) -> Value:
    """Return what takes the place of every element of the operand."""
    x = call.tensor(0)
    return expand(call.valued(1) if len(call.node.args) > 1 else constant(0, x.dtype), x.dims)


def _select_scatter(call: OperationCall) -> Value:
    """Return the operand with another tensor at one position of a dimension."""
    x, axis = call.tensor(0), int(call.number(2, "dim", 0)) % len(call.tensor(0).dims)
    (index,) = call.integers(3, "index")
    hit = _is_at(x, axis, length_of(position_of(index, x.dims[axis])))
    return compute(_CHOSEN, hit, unsqueeze(call.valued(1), axis), x, dtype=x.dtype)


def _slice_scatter(call: OperationCall) -> Value:
    """Return the operand with another tensor in a slice of it."""
    x, source, axis = call.tensor(0), call.valued(1), int(call.number(2, "dim", 0)) % len(call.tensor(0).dims)
    whole, (start, end), step = x.dims[axis], (call.operand(k, n) for k, n in ((3, "start"), (4, "end"))), 1
    given = call.operand(5, "step", 1)
    if not isinstance(given, int) or not is_constant(given):
        raise not_in_playbook("a slice whose step changes with the sizes")
    step = int(given)
    first = position_of(start if isinstance(start, int) else 0, whole)
    last = position_of(end, whole) if isinstance(end, int) else whole
    where = compute("{0} - {1}", position((whole,), 0), length_of(first), dtype="int64")
    inside = f"{{0}} >= 0 && {{0}} + {{1}} < {{2}}{f' && {{0}} % {step} == 0' if step > 1 else ''}"
    behind = len(x.dims) - axis - 1
    hit = followed(compute(inside, where, length_of(first), length_of(last), dtype="bool"), behind)
    place = compute(f"{{0}} < 0 ? 0L : {{0}} / {step} < {{1}} ? {{0}} / {step} : {{1}} - 1", where,
                    length_of(source.dims[axis]), dtype="int64")  # fmt: skip
    return compute(_CHOSEN, hit, in_one(source, axis, place), x, dtype=x.dtype)


def _is_at(x: Value, axis: int, place: Value) -> Value:
    """Return whether an element lies at a place along a dimension."""
    return compute("{0} == {1}", position(x.dims, axis), place, dtype="bool")


def _scatter(call: OperationCall) -> Value:
    """Return the operand with elements of a source, or a number, where an index says.

    Of several the last one is there, or all of them and what was there before are added up, or multiplied.
    """
    x, axis, index, source = _scattered(call)
    how = call.keyword("reduce")
    if how is None:
        return _last_written(call, x, axis, index, source)
    return _reduced(call, {"add": "sum", "multiply": "prod"}[str(how)], x, axis, index, source)


def _scatter_add(call: OperationCall) -> Value:
    x, axis, index, source = _scattered(call)
    return add(x, _added_up(call, x, axis, index, source))


def _scatter_reduce(call: OperationCall) -> Value:
    x, axis, index, source = _scattered(call)
    return _reduced(call, str(call.operand(4, "reduce")), x, axis, index, source, 5)


def _index_reduce(call: OperationCall, x: Value, axis: int, index: Value, source: Value) -> Value:
    return _reduced(call, str(call.operand(4, "reduce")), x, axis, index, source, 5)


def _scattered(call: OperationCall) -> tuple[Value, int, Value, Value]:
    """Return the operand, a dimension, an index, and what is written; these as long as the operand in all others.

    Where they are not, the index is -1, which is no place.
    """
    x, axis, index = call.tensor(0), int(call.number(1, "dim", 0)) % len(call.tensor(0).dims), call.tensor(2)
    source = _source(call, 3, "src", x, index)
    if len(index.dims) != len(x.dims):
        raise not_in_playbook(f"'{call.node.op}' of another rank")
    for k, (own, given) in enumerate(zip(x.dims, index.dims, strict=True)):
        if k != axis and not agree([own], [given]):
            at, length = position((own,), 0), length_of(given)
            kept = compute("{0} < {1} ? {0} : {1} - 1", at, length, dtype="int64")
            inside = followed(compute("{0} < {1}", at, length, dtype="bool"), len(x.dims) - k - 1)
            index = compute("{0} ? {1} : {T}(-1)", inside, in_one(index, k, kept), dtype=index.dtype)
            source = in_one(source, k, kept)
    return x, axis, index, source


def _reduced(
    call: OperationCall, kind: str, x: Value, axis: int, index: Value, source: Value, at: int | None = None
) -> Value:
    """Return what is written to each element, and was there before, put together.

    Args:
        at: the operand that says whether what was there before counts; None: it does.
    """
    counts = at is None or call.flag(at, "include_self", True)
    if kind not in _REDUCED or (x.dtype not in FLOATS and kind not in ("sum", "prod")):
        raise not_in_playbook(f"'{call.node.op}' of {x.dtype} by {kind}")
    found, none, code = _REDUCED[kind]
    written = _put_together(call, found, x, axis, index, source, none)
    if counts and kind != "mean":
        return compute(code, x, written, dtype=x.dtype)
    number = _put_together(call, "sum", x, axis, index, expand(constant(1, "int64"), index.dims), 0)
    if kind == "mean":
        share = "({0} + {1}) / {T}({2} + 1)" if counts else "{2} > 0 ? {1} / {T}({2}) : {0}"
        return compute(share, x, written, number, dtype=x.dtype)
    return compute("{2} > 0 ? {1} : {0}", x, written, number, dtype=x.dtype)


_REDUCED = {
    "sum": ("sum", 0, "{0} + {1}"), "prod": ("times", 1, "{0} * {1}"), "mean": ("sum", 0, ""),
    "amax": ("max", float("-inf"), "max_of({0}, {1})"), "amin": ("min", float("inf"), "min_of({0}, {1})"),
}  # fmt: skip
"""How what is written to one place is reduced, of nothing, and with what is there."""


def _source(call: OperationCall, at: int, name: str, x: Value, index: Value) -> Value:
    """Return what is written, of the index's extents, in the operand's dtype."""
    value = call.operand(at, name) if call.has(at, name) else call.operand(at, "value")
    if not isinstance(value, Ref):
        return expand(constant(value if isinstance(value, int | float) else 0, x.dtype), index.dims)
    source = cast(call.tensor(at, name if call.has(at, name) else "value"), x.dtype)
    if len(source.dims) != len(index.dims):
        raise not_in_playbook(f"'{call.node.op}' of another rank")
    for k, (own, wanted) in enumerate(zip(source.dims, index.dims, strict=True)):
        if not agree([own], [wanted]):
            source = window(source, k, Extent("0", 0), wanted)
    return source


def _last_written(call: OperationCall, x: Value, axis: int, index: Value, source: Value) -> Value:
    if index.dims[axis].single:
        return compute(_CHOSEN, _is_at(x, axis, index), source, x, dtype=x.dtype)
    last = _put_together(call, "max", x, axis, index, position(index.dims, axis), -1)
    if _are_many(index, axis):
        written: Value = along(source, axis, compute("{0} < 0 ? 0L : {0}", last, dtype="int64"))
    else:
        _, elements = _beside(x, axis, index, source)
        own = compute("{0} == {1}", position(elements.dims, axis + 1), unsqueeze(last, axis + 1), dtype="bool")
        dtype = "int64" if x.dtype == "bool" else x.dtype
        kept = compute("{0} ? {1} : {T}(0)", own, cast(elements, dtype), dtype=dtype)
        written = cast(reduce("sum", kept, (axis + 1,), False), x.dtype)
    return compute("{0} < 0 ? {1} : {2}", last, x, written, dtype=x.dtype)


def _added_up(call: OperationCall, x: Value, axis: int, index: Value, source: Value) -> Value:
    if index.dims[axis].single:
        return compute("{0} ? {1} : {T}(0)", _is_at(x, axis, index), source, dtype=x.dtype)
    return _put_together(call, "sum", x, axis, index, source, 0)


def _put_together(
    call: OperationCall, kind: str, x: Value, axis: int, index: Value, source: Value, none: float
) -> Value:
    """Return for each element of `x` the reduction of what is written to it; `none`, or less, where that is nothing."""
    if _are_many(index, axis):
        dims = tuple(own if k == axis else given for k, (own, given) in enumerate(zip(x.dims, index.dims, strict=True)))
        return SegmentReduce(dims, source.dtype, kind, source, _order(call, index, axis), axis)
    hit, elements = _beside(x, axis, index, source)
    kept = compute(_CHOSEN, hit, elements, like(elements, none), dtype=source.dtype)
    return reduce(kind, kept, (axis + 1,), False)


def _are_many(index: Value, axis: int) -> bool:
    """Tell whether to compare each element's place with all of them costs more than to sort them."""
    return max(index.dims[axis].size, *index.dims[axis].everywhere, 0) > _MOST_COMPARED


def _beside(x: Value, axis: int, index: Value, source: Value) -> tuple[Value, Value]:
    """Return for each element of `x`, along one more dimension behind `axis`, which indices are its place, and the
    elements of the source there."""
    place = unsqueeze(position(x.dims, axis), axis + 1)
    indices = unsqueeze(cast(index, "int64"), axis)
    hit = compute("{0} == {1}", place, indices, dtype="bool")
    return hit, unsqueeze(source, axis)


def _order(call: OperationCall, index: Value, axis: int) -> Value:
    """Return an index, sorted along a dimension, each place with where it lies; the same for all views of a vector."""
    vector = _vector_of(index, axis)
    if vector is None:
        return _sorted_places(index, axis)
    if vector not in call.made:
        call.made[vector] = _sorted_places(squeeze(vector, [k for k, d in enumerate(vector.dims) if d.single]), 0)
    order = call.made[vector]
    return Move(tuple(d if k == axis else ONE for k, d in enumerate(index.dims)), order.dtype, order, (axis,))


def _vector_of(index: Value, axis: int) -> Value | None:
    """Return the vector that an index repeats along all other dimensions; None if it is none."""
    walked: int | None = axis
    while isinstance(index, Move):
        walked = index.sources.index(walked) if walked in index.sources else None
        index = index.operand
    return index if [k for k, d in enumerate(index.dims) if not d.single] == [walked] else None


def _sorted_places(index: Value, axis: int) -> Value:
    number = compute("{0} * 4294967296L + {1}", cast(index, "int64"), position(index.dims, axis), dtype="int64")
    order = Sorted(number.dims, "int64", number, axis)
    return Reshape(order.dims, order.dtype, order)


def _by_vector(
    write: Callable[[OperationCall, Value, int, Value, Value], Value], *, from_ends: bool = False
) -> Rule:  # fmt: skip
    """Return the rule of an operation whose index is a vector of positions along one dimension.

    Args:
        from_ends: negative ones count from its end.
    """

    def rule(call: OperationCall) -> Value:
        x, axis, vector = call.tensor(0), int(call.number(1, "dim", 0)) % len(call.tensor(0).dims), call.tensor(2)
        vector = vector if vector.dims else unsqueeze(vector, 0)
        vector = from_either_end(vector, x.dims[axis]) if from_ends else vector
        dims = (*x.dims[:axis], vector.dims[0], *x.dims[axis + 1 :])
        index = expand(followed(vector, len(x.dims) - axis - 1), dims)
        value = call.operand(3, "source") if call.has(3, "source") else call.operand(3, "value")
        source = call.valued(3, "source" if call.has(3, "source") else "value")
        return write(call, x, axis, index, source if isinstance(value, Ref) and source.dims else expand(source, dims))

    return rule


def _index_add(call: OperationCall, x: Value, axis: int, index: Value, source: Value) -> Value:
    alpha = call.keyword("alpha", 1)
    if isinstance(alpha, int | float) and alpha != 1:
        source = mul(source, like(source, alpha))
    return add(x, _added_up(call, x, axis, index, source))


def _index_put(call: OperationCall) -> Value:
    """Return the operand with values where a mask says, or at places that tensors say for some of its dimensions."""
    x, given, together = call.tensor(0), call.operand(1), call.flag(3, "accumulate")
    assert isinstance(given, tuple)
    found = {axis: call.values.get(one.node) for axis, one in enumerate(given) if isinstance(one, Ref)}
    places = {axis: place for axis, place in found.items() if place is not None}
    if places.keys() != found.keys():
        raise not_in_playbook(f"'{call.node.op}' by several results at once")
    if [place.dtype for place in places.values()] == ["bool"] and 0 in places:
        return _put_where(x, places[0], call.valued(2), together)
    if any(place.dtype == "bool" for place in places.values()):
        raise not_in_playbook(f"'{call.node.op}' by a mask and other places")
    return _put_at(call, x, places, together)


def _put_at(call: OperationCall, x: Value, places: Mapping[int, Value], together: bool) -> Value:
    """Take the dimensions that have places as one, which comes first, and write at its places."""
    axes, common = list(places), broadcast(list(places.values()))
    others = [axis for axis in range(len(x.dims)) if axis not in places]
    before = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = tuple(x.dims[axis] for axis in others)
    own = range(before, before + len(common))
    source = expand(call.valued(2), (*rest[:before], *common, *rest[before:]))
    source = permute(source, (*own, *(k for k in range(len(source.dims)) if k not in own)))
    source = reshaped(source, (product(common), *rest))

    flat = reshaped(expand(_in_one_number(x, places), common), (product(common),))
    index = expand(followed(flat, len(rest)), (*flat.dims, *rest))

    order = (*axes, *others)
    turned = permute(x, order)
    rows = reshaped(turned, (product([x.dims[axis] for axis in axes]), *rest))
    if together:
        made = add(rows, _added_up(call, rows, 0, index, source))
    else:
        made = _last_written(call, rows, 0, index, source)
    return permute(reshaped(made, turned.dims), [order.index(axis) for axis in range(len(order))])


def _in_one_number(x: Value, places: Mapping[int, Value]) -> Value:
    """Return for places along several dimensions the places along these dimensions taken as one."""
    number, *others = (from_either_end(one, x.dims[axis]) for axis, one in places.items())
    for extent_of_it, other in zip([x.dims[axis] for axis in places][1:], others, strict=True):
        number = compute("{0} * {1} + {2}", number, length_of(extent_of_it), other, dtype="int64")
    return number


def _put_where(x: Value, mask: Value, values: Value, together: bool) -> Value:
    if values.dims and not all(dim.single for dim in values.dims):
        raise not_in_playbook("a list of values for the elements that a mask chooses")
    hit, one = followed(mask, len(x.dims) - len(mask.dims)), squeeze(values, range(len(values.dims)))
    return compute(_CHOSEN, hit, add(x, one) if together else one, x, dtype=x.dtype)


RULES: Mapping[str, Rule] = {
    "copy": _all_of_it, "fill": _all_of_it, "zero": _all_of_it,
    "one_hot": _one_hot, "eye": _eye, "diag_embed": _diag_embed, "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter, "scatter": _scatter, "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_reduce, "index_add": _by_vector(_index_add),
    "index_reduce": _by_vector(_index_reduce), "index_copy": _by_vector(_last_written),
    "index_fill": _by_vector(_last_written, from_ends=True), "index_put": _index_put,
}  # fmt: skip
