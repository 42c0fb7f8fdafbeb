"""Rules of what goes by rank: the largest elements with their places, the places of extremes so far and of windows.

A value and its position are one number (`ranked`), larger for a larger value: then every element has a rank of its own,
and the next one is the largest of those below. As many as are asked for cost as many passes over a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import OperationCall, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast
from cutegen_core.propose.playbook.pointwise import LEAST
from cutegen_core.propose.playbook.rules.images.windows import pooled
from cutegen_core.propose.playbook.rules.joins import join
from cutegen_core.propose.playbook.rules.places import LOW_HALF, PLACE_OF_LARGEST, SHORT
from cutegen_core.propose.playbook.rules.scans import scanned
from cutegen_core.propose.playbook.values import (
    POSITIONS,
    ZERO,
    Load,
    Value,
    compute,
    is_constant,
    position,
    product,
    reduce,
    squeeze,
)

_MOST_RANKS = 16


def _topk(call: OperationCall) -> dict[str, Value]:
    axis, largest = int(call.number(2, "dim", -1)), call.flag(3, "largest", True)
    return _results(call, _in_order(call, call.operand(1, "k"), axis, largest), largest, axis)


def _kthvalue(call: OperationCall) -> dict[str, Value]:
    axis = int(call.number(2, "dim", -1))
    *_, last = _in_order(call, call.operand(1, "k"), axis, False)
    found = _results(call, [last], False, axis)
    keepdim = call.flag(3, "keepdim")
    return {name: one if keepdim else squeeze(one, (axis % len(one.dims),)) for name, one in found.items()}


def _in_order(call: OperationCall, count: object, axis: int, largest: bool) -> list[Value]:
    """Return the ranks of so many elements of each row, the largest first, or the smallest."""
    x = call.tensor(0)
    if x.dtype not in SHORT:
        raise not_in_playbook(f"'{call.node.op}' of {x.dtype}")
    if not isinstance(count, int) or not is_constant(count) or count > _MOST_RANKS:
        raise not_in_playbook(f"'{call.node.op}' of more than {_MOST_RANKS} elements of a row")
    where = position(x.dims, axis)
    kind, code = ("max", "ranked({0}, {1})") if largest else ("min", "ranked({0}, 2147483647L - {1})")
    below = f"{{0}} < {{1}} ? {{0}} : {LEAST}" if largest else "{0} > {1} ? {0} : 9223372036854775807L"
    ranks = compute(code, cast(x, "float32"), where, dtype="int64")
    found = [reduce(kind, ranks, (axis,), True)]
    while len(found) < count:
        found.append(reduce(kind, compute(below, ranks, found[-1], dtype="int64"), (axis,), True))
    return found


def _results(call: OperationCall, ranks: list[Value], largest: bool, axis: int) -> dict[str, Value]:
    """Return the elements of ranks along a dimension, and their places: of halves, many of which are equal, PyTorch
    names any."""
    name, dtype = call.node.name, call.tensor(0).dtype
    values: list[Value] = [compute("value_of_rank({0})", rank, dtype=dtype) for rank in ranks]
    code = PLACE_OF_LARGEST if largest else LOW_HALF
    along = axis % len(ranks[0].dims)
    found = {name: join(values, along) if len(ranks) > 1 else values[0]}
    if dtype == "float32":
        places: list[Value] = [compute(code, rank, dtype="int64") for rank in ranks]
        found[f"{name}[1]"] = join(places, along) if len(ranks) > 1 else places[0]
    return found


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
    """Return a rule for the largest elements of windows, and for their places in an image that is one row."""

    def results(call: OperationCall) -> dict[str, Value]:
        name, found = call.node.name, pooled(call, rank, "max")
        x = call.tensor(0)
        if x.dtype not in SHORT:
            return {name: found}
        lead = len(x.dims) - rank
        strides = (*[ZERO] * lead, *(product(x.dims[k + 1 :]) for k in range(lead, len(x.dims))))
        where = Load(x.dims, "int64", POSITIONS, strides)
        ranks = compute("ranked({0}, {1})", cast(x, "float32"), where, dtype="int64")
        best = pooled(call, rank, "max", ranks)
        return {name: found, f"{name}[1]": compute(PLACE_OF_LARGEST, best, dtype="int64")}

    return results


SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "topk": _topk, "kthvalue": _kthvalue, "cummax": _extreme_so_far("max"), "cummin": _extreme_so_far("min"),
    **{f"max_pool{n}d_with_indices": _largest_of_windows(n) for n in (1, 2, 3)},
}  # fmt: skip
