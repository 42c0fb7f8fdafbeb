"""Rules of what goes by rank: the largest elements with their places, the places of extremes so far and of windows.

A value and its position are one number (`ranked`), larger for a larger value: then every element has a rank of its own,
and the next one is the largest of those below. Few of them cost as many passes over a row; for more, a row is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.graphs.choice import FEW_ROWS, LONG_ROW
from cutegen_core.propose.playbook.pointwise.operations import GREATEST, LEAST, LERP
from cutegen_core.propose.playbook.rules.images.windows import pooled
from cutegen_core.propose.playbook.rules.joins import join
from cutegen_core.propose.playbook.rules.places import LOW_HALF, PLACE_OF_LARGEST, SHORT, position_of
from cutegen_core.propose.playbook.rules.scans import scanned
from cutegen_core.propose.playbook.rules.taken import along
from cutegen_core.propose.playbook.values import (
    ONE,
    POSITIONS,
    ZERO,
    Extent,
    Load,
    Reshape,
    Size,
    Sorted,
    Value,
    compute,
    computed,
    extent,
    is_constant,
    position,
    product,
    reduce,
    reshape,
    squeeze,
    window,
)

_MOST_RANKS, _MOST_RANKS_OF_LONG = 16, 2
"""Passes over a row that cost less than to sort it; of a row that several blocks share, each takes two kernels."""
_FINEST_SHARE = 10_000
_MOSTLY_DIFFERENT, _LONG = "float32", "int64"
_SHORT_WHOLE = ("int32", "int16", "int8", "uint8", "bool")
_LAST_NAN = "{0} != {0} ? 2147483647L - {1} : {1}"
"""A position; that of NaN counts from the end, so that the last one ranks highest."""


def _topk(call: OperationCall) -> dict[str, Value]:
    """Return the largest elements in order, which is one that `sorted=False` allows, too."""
    call.flag(4, "sorted", True)
    axis, largest, count = int(call.number(2, "dim", -1)), call.flag(3, "largest", True), call.operand(1, "k")
    assert isinstance(count, int)
    if _is_few(count, call.tensor(0), axis):
        return _results(call, _in_order(call, count, axis, largest), largest, axis)
    row = _sorted(call, axis, largest, wanted=extent(count))
    return _results(call, [window(row, axis, ZERO, extent(count))], largest, axis)


def _kthvalue(call: OperationCall) -> dict[str, Value]:
    axis, count = int(call.number(2, "dim", -1)), call.operand(1, "k")
    assert isinstance(count, int)
    if _is_few(count, call.tensor(0), axis):
        *_, kth = _in_order(call, count, axis, False)
    else:
        kth = window(_sorted(call, axis, False, wanted=extent(count)), axis, extent(count).less(ONE), ONE)
    return _squeezed(_results(call, [kth], False, axis), axis, keepdim=call.flag(3, "keepdim"))


def _median(call: OperationCall) -> dict[str, Value]:
    """Return the middle element of each row, of two the smaller one, or of all elements; NaN where there is any."""
    x, axis = _row_of(call, 1)
    row, length = _sorted(call, axis, False, x), x.dims[axis]
    middle = computed("(({} - 1) // 2)", lambda n: (n - 1) // 2, length)
    found = _results(call, [window(row, axis, middle, ONE)], False, axis)
    if x.dtype in SHORT:
        name, last = call.node.name, _last(call, row, axis)
        found[name] = compute("isnan({1}) ? {1} : {0}", found[name], last, dtype=x.dtype)
        if f"{name}[1]" in found:
            first = position_of("max", x, (axis,), True)
            found[f"{name}[1]"] = compute("isnan({1}) ? {2} : {0}", found[f"{name}[1]"], last, first, dtype="int64")
    return _squeezed(found, axis, keepdim=call.flag(2, "keepdim"))


def _quantile(call: OperationCall) -> Value:
    """Return what a share of each row, or of all elements, lies below: between two elements, by how far it lies."""
    share, (x, axis) = call.operand(1, "q"), _row_of(call, 2)
    if not isinstance(share, float) or not is_constant(share) or call.keyword("interpolation") not in (None, "linear"):
        raise not_in_playbook(f"'{call.node.op}' of several shares, or without interpolation,")
    over, under = Fraction(share).limit_denominator(_FINEST_SHARE).as_integer_ratio()
    row, length, keepdim = _sorted(call, axis, False, x), x.dims[axis], call.flag(3, "keepdim")
    below = computed(f"({over} * ({{}} - 1) // {under})", lambda n: over * (n - 1) // under, length)
    above = computed(f"(({over} * ({{}} - 1) + {under - 1}) // {under})",
                     lambda n: (over * (n - 1) + under - 1) // under, length)  # fmt: skip
    ends = _values(call, [window(row, axis, place, ONE) for place in (below, above)])
    parts = Size((), x.dtype, f"{over} * ({length.text} - 1) % {under}")
    weight = compute(f"{{0}} / {{T}}({under})", parts, dtype=x.dtype)
    found = compute(f"isnan({{3}}) ? {{3}} : {LERP}", *ends, weight, _last(call, row, axis), dtype=x.dtype)
    return found if keepdim else squeeze(found, (axis,))


def _row_of(call: OperationCall, index: int) -> tuple[Value, int]:
    """Return the operand and the dimension that is named, or all its elements as one row."""
    x = call.tensor(0)
    if call.has(index, "dim"):
        return x, int(call.number(index, "dim", 0)) % len(x.dims)
    return reshape(x, (x.numel,)), 0


def _last(call: OperationCall, row: Value, axis: int) -> Value:
    """Return the largest element of each sorted row, which is NaN where any is."""
    (last,) = _values(call, [window(row, axis, row.dims[axis].less(ONE), ONE)])
    return last


def _sort(call: OperationCall) -> dict[str, Value]:
    """Return the elements in order, and their places where PyTorch says which of equal ones comes first."""
    axis, descending, stable = _order_of(call)
    if call.tensor(0).dtype == _LONG:
        places = _places_of_long(call, axis, descending)
        found = {call.node.name: along(call.tensor(0), axis, places)}
        return found | ({f"{call.node.name}[1]": places} if stable else {})
    return _results(call, [_sorted(call, axis, descending)], descending, axis, stable=stable)


def _argsort(call: OperationCall) -> Value:
    axis, descending, stable = _order_of(call)
    if not stable and call.tensor(0).dtype != _MOSTLY_DIFFERENT:
        raise not_in_playbook(f"'{call.node.op}' of {call.tensor(0).dtype}, whose equal elements come in any order,")
    if call.tensor(0).dtype == _LONG:
        return _places_of_long(call, axis, descending)
    return _place(_sorted(call, axis, descending), descending)


def _msort(call: OperationCall) -> Value:
    if call.tensor(0).dtype == _LONG:
        return along(call.tensor(0), 0, _places_of_long(call, 0, False))
    (values,) = _values(call, [_sorted(call, 0, False)])
    return values


def _places_of_long(call: OperationCall, axis: int, largest: bool) -> Value:
    """Return where the elements of 64 bits come from: sorted by their lower halves, and then, in that order, by the
    upper ones."""
    x, axis = call.tensor(0), axis % len(call.tensor(0).dims)

    def places(half: Value) -> Value:
        ranks = _ranked(half, axis, largest)
        order = Sorted(ranks.dims, "int64", ranks, axis, largest)
        return _place(Reshape(order.dims, order.dtype, order), largest)

    of_lower = places(compute(f"{LOW_HALF} - 2147483648L", x, dtype=_LONG))
    of_upper = places(compute("{0} >> 32", along(x, axis, of_lower), dtype=_LONG))
    return along(of_lower, axis, of_upper)


def _order_of(call: OperationCall) -> tuple[int, bool, bool]:
    """Return the dimension to sort along, whether the largest comes first, and whether equal ones stay in order."""
    return int(call.number(1, "dim", -1)), call.flag(2, "descending"), call.keyword("stable") is True


def _is_few(count: int, x: Value, axis: int) -> bool:
    """Tell whether a pass over the row for each costs less than to sort it."""
    length = x.dims[axis].size
    is_shared = length >= LONG_ROW and x.numel < FEW_ROWS * length
    return is_constant(count) and count <= (_MOST_RANKS_OF_LONG if is_shared else _MOST_RANKS)


def _ranks(call: OperationCall, axis: int, largest: bool, x: Value) -> Value:
    """Return the rank of each element: greater for a larger one, and of equal ones for the earlier if `largest`, else
    for the later."""
    if x.dtype in SHORT:
        return compute(f"ranked({{0}}, {_later(largest)})", cast(x, "float32"), position(x.dims, axis), dtype="int64")
    if x.dtype not in _SHORT_WHOLE:
        raise not_in_playbook(f"'{call.node.op}' of {x.dtype}")
    return _ranked(cast(x, "int64"), axis, largest)


def _ranked(number: Value, axis: int, largest: bool) -> Value:
    """Return the ranks of whole numbers of 32 bits, as `_ranks` does."""
    code = f"{{0}} * 4294967296L + 2147483647L - ({_later(largest)})"
    return compute(code, number, position(number.dims, axis), dtype="int64")


def _later(largest: bool) -> str:
    """Return a number that is greater for what comes later among equal elements."""
    return "{1}" if largest else "2147483647L - {1}"


def _sorted(
    call: OperationCall, axis: int, largest: bool, x: Value | None = None, wanted: Extent | None = None
) -> Value:
    """Return the ranks of each row in order, in memory; only so many if they are `wanted`."""
    ranks = _ranks(call, axis, largest, call.tensor(0) if x is None else x)
    order = Sorted(ranks.dims, "int64", ranks, axis % len(ranks.dims), largest, wanted)
    return Reshape(order.dims, order.dtype, order)


def _in_order(call: OperationCall, count: int, axis: int, largest: bool) -> list[Value]:
    """Return the ranks of so many elements of each row, the largest first, or the smallest."""
    kind = "max" if largest else "min"
    below = f"{{0}} < {{1}} ? {{0}} : {LEAST}" if largest else f"{{0}} > {{1}} ? {{0}} : {GREATEST}"
    ranks = _ranks(call, axis, largest, call.tensor(0))
    found = [reduce(kind, ranks, (axis,), True)]
    while len(found) < count:
        found.append(reduce(kind, compute(below, ranks, found[-1], dtype="int64"), (axis,), True))
    return found


def _results(
    call: OperationCall, ranks: list[Value], largest: bool, axis: int, *, stable: bool = False
) -> dict[str, Value]:
    """Return the elements of ranks along a dimension, and their places: of halves and whole numbers, many of which are
    equal, PyTorch names any unless it is `stable`."""
    name, along = call.node.name, axis % len(ranks[0].dims)
    values = _values(call, ranks)
    found = {name: join(values, along) if len(ranks) > 1 else values[0]}
    if stable or call.tensor(0).dtype == _MOSTLY_DIFFERENT:
        places = [_place(rank, largest) for rank in ranks]
        found[f"{name}[1]"] = join(places, along) if len(ranks) > 1 else places[0]
    return found


def _values(call: OperationCall, ranks: list[Value]) -> list[Value]:
    """Return the elements of these ranks."""
    dtype = call.tensor(0).dtype
    code = "value_of_rank({0})" if dtype in SHORT else "({0} >> 32)"
    return [compute(code, rank, dtype=dtype) for rank in ranks]


def _place(rank: Value, largest: bool) -> Value:
    """Return where the element of a rank lies in its row."""
    return compute(PLACE_OF_LARGEST if largest else LOW_HALF, rank, dtype="int64")


def _squeezed(found: dict[str, Value], axis: int, *, keepdim: bool) -> dict[str, Value]:
    return {name: one if keepdim else squeeze(one, (axis % len(one.dims),)) for name, one in found.items()}


def _extreme_so_far(kind: str) -> Callable[[OperationCall], dict[str, Value]]:
    """Return a rule for the values, and for their places: of equal ones the last."""

    def results(call: OperationCall) -> dict[str, Value]:
        x, name = call.tensor(0), call.node.name
        found = scanned(kind, x, call)
        if x.dtype not in SHORT:
            return {name: found}
        (axis,) = call.integers(1, "dim")
        sign = "" if kind == "max" else "-"
        code = f"ranked({sign}{{0}}, 2147483647L - {{1}})"
        ranks = compute(code, cast(x, "float32"), position(x.dims, axis), dtype="int64")
        return {name: found, f"{name}[1]": compute(LOW_HALF, scanned("max", ranks, call), dtype="int64")}

    return results


def _largest_of_windows(rank: int) -> Callable[[OperationCall], dict[str, Value]]:
    """Return a rule for the largest elements of windows, and for their places in an image that is one row: of equal
    ones the first, of several NaN the last."""

    def results(call: OperationCall) -> dict[str, Value]:
        name, found = call.node.name, pooled(call, rank, "max")
        x = call.tensor(0)
        if x.dtype not in SHORT:
            return {name: found}
        lead = len(x.dims) - rank
        strides = (*[ZERO] * lead, *(product(x.dims[k + 1 :]) for k in range(lead, len(x.dims))))
        where = Load(x.dims, "int64", POSITIONS, strides)
        ranks = compute(f"ranked({{0}}, {_LAST_NAN})", cast(x, "float32"), where, dtype="int64")
        best = pooled(call, rank, "max", ranks)
        place = compute(f"{{1}} != {{1}} ? {LOW_HALF} : {PLACE_OF_LARGEST}", best, found, dtype="int64")
        return {name: found, f"{name}[1]": place}

    return results


SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "topk": _topk, "kthvalue": _kthvalue, "median": _median, "sort": _sort,
    "cummax": _extreme_so_far("max"), "cummin": _extreme_so_far("min"),
    **{f"max_pool{n}d_with_indices": _largest_of_windows(n) for n in (1, 2, 3)},
}  # fmt: skip
RULES: Mapping[str, Rule] = {"argsort": _argsort, "msort": _msort, "quantile": _quantile}
