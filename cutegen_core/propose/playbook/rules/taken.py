"""Rules of the operations that read elements at places which other tensors hold: `embedding`, `gather`, `x[i]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.values import (
    Constant,
    Extent,
    Size,
    Taken,
    Value,
    broadcast,
    compute,
    expand,
    reshape,
    unsqueeze,
)
from cutegen_core.records.graph import Ref


def _embedding(call: OperationCall) -> Value:
    """Return rows of a table; what else an embedding is told concerns gradients."""
    for index, name in enumerate(("padding_idx", "scale_grad_by_freq", "sparse"), 2):
        call.operand(index, name)
    return in_one(call.tensor(0), 0, call.tensor(1))


def _index_select(call: OperationCall) -> Value:
    (axis,), places = call.integers(1), call.tensor(2)
    return in_one(call.tensor(0), axis, places if places.dims else unsqueeze(places, 0))


def _take(call: OperationCall) -> Value:
    x = reshape(call.tensor(0), (call.tensor(0).numel,))
    return in_one(x, 0, from_either_end(call.tensor(1), x.dims[0]))


def _gather(call: OperationCall) -> Value:
    """Read along one dimension; the others have the coordinates of the result, which may be shorter there."""
    (axis,) = call.integers(1)
    return along(call.tensor(0), axis, call.tensor(2))


def _take_along(call: OperationCall) -> Value:
    x, places, axes = call.tensor(0), call.tensor(1), call.integers(2)
    if not axes or len(x.dims) != len(places.dims):
        raise not_in_playbook("'take_along_dim' of what is flattened, or of other ranks")
    (axis,) = (a % len(x.dims) for a in axes)
    before, after = (
        broadcast([Value(one.dims[part], one.dtype) for one in (x, places)])
        for part in (slice(axis), slice(axis + 1, None))
    )
    x = expand(x, (*before, x.dims[axis], *after))
    return along(x, axis, expand(places, (*before, places.dims[axis], *after)))


def _index(call: OperationCall) -> Value:
    """Read where tensors say, one for each of some dimensions: their own come in place of these where they are
    neighbours, else first."""
    x, given = call.tensor(0), call.operand(1)
    assert isinstance(given, tuple)
    places = [_place(call, x, k, one) for k, one in enumerate(given)] + [None] * (len(x.dims) - len(given))
    found = [k for k, place in enumerate(places) if place is not None]
    common = broadcast([place for place in places if place is not None])
    neighbours = found == list(range(found[0], found[-1] + 1))
    first = found[0] if neighbours else 0
    rest = [k for k in range(len(x.dims)) if k not in found]
    dims = (*(x.dims[k] for k in rest[:first]), *common, *(x.dims[k] for k in rest[first:]))
    behind = len(rest) - first
    sources = [
        None if k in found else rest.index(k) + (len(common) if rest.index(k) >= first else 0)
        for k in range(len(x.dims))
    ]
    return Taken(dims, x.dtype, x, tuple(place and followed(place, behind) for place in places), tuple(sources))


def _place(call: OperationCall, x: Value, axis: int, operand: object) -> Value | None:
    """Return the places along one dimension; negative ones count from its end."""
    if operand is None:
        return None
    places = call.values.get(operand.node) if isinstance(operand, Ref) else None
    if places is None or places.dtype not in ("int64", "int32"):
        raise not_in_playbook("'index' by what is not a tensor of whole numbers")
    return from_either_end(places, x.dims[axis])


def from_either_end(places: Value, extent: Extent) -> Value:
    """Return places along a dimension of this extent, of which negative ones count from its end."""
    return compute("{0} < 0 ? {0} + {1} : {0}", places, length_of(extent), dtype="int64")


def length_of(extent: Extent) -> Value:
    """Return an extent as a whole number of the kernel."""
    return Constant((), "int64", int(extent.text)) if extent.text.isdigit() else Size((), "int64", extent.text)


def in_one(x: Value, axis: int, places: Value) -> Value:
    """Return the elements of `x` of which the coordinate along one dimension is a place."""
    axis %= len(x.dims)
    own, behind = len(places.dims), len(x.dims) - axis - 1
    dims = (*x.dims[:axis], *places.dims, *x.dims[axis + 1 :])
    sources = (*range(axis), None, *range(axis + own, axis + own + behind))
    indices: Sequence[Value | None] = [None] * axis + [followed(places, behind)] + [None] * behind
    return Taken(dims, x.dtype, x, tuple(indices), sources)


def along(x: Value, axis: int, places: Value) -> Value:
    """Return for each place the element of `x` there along one dimension, with the place's own other coordinates."""
    others = tuple(None if k == axis % len(x.dims) else k for k in range(len(x.dims)))
    return Taken(places.dims, x.dtype, x, tuple(places if k is None else None for k in others), others)


def followed(places: Value, dimensions: int) -> Value:
    """Return the places with so many more dimensions, along which they are the same."""
    for _ in range(dimensions):
        places = unsqueeze(places, len(places.dims))
    return places


RULES: Mapping[str, Rule] = {
    "embedding": _embedding, "index_select": _index_select, "take": _take, "gather": _gather,
    "take_along_dim": _take_along, "index": _index,
}  # fmt: skip
