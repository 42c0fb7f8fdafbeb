"""Rules of the operations that give several views, one value each, named as "getitem" asks for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.rules.joins import join
from cutegen_core.propose.playbook.rules.taken import followed
from cutegen_core.propose.playbook.rules.views import position_of
from cutegen_core.propose.playbook.values import (
    ONE,
    ZERO,
    Extent,
    Value,
    agree,
    at_most,
    broadcast,
    combined,
    expand,
    extent,
    is_constant,
    permute,
    product,
    reshaped,
    squeeze,
    unsqueeze,
    window,
)


def _named(call: OperationCall, found: Sequence[Value]) -> dict[str, Value]:
    return {f"{call.node.name}[{i}]": value for i, value in enumerate(found)}


def _broadcast_tensors(call: OperationCall) -> dict[str, Value]:
    operands = call.tensors(0)
    dims = broadcast(operands)
    return _named(call, [expand(value, dims) for value in operands])


def _grid(given: Sequence[Value]) -> list[Value]:
    vectors = [value if value.dims else unsqueeze(value, 0) for value in given]
    dims = tuple(value.dims[0] for value in vectors)
    return [expand(followed(value, len(vectors) - 1 - k), dims) for k, value in enumerate(vectors)]


def _meshgrid(call: OperationCall) -> dict[str, Value]:
    """Return each vector along a dimension of its own; of "xy" the first two dimensions change places."""
    found = _grid(call.tensors(0))
    if call.operand(1, "indexing") == "xy" and len(found) > 1:
        found = [permute(value, (1, 0, *range(2, len(found)))) for value in found]
    return _named(call, found)


def _cartesian(call: OperationCall) -> Value:
    """Return all combinations of the elements of several vectors, one in a row."""
    grids = _grid(call.tensors(0))
    columns = [unsqueeze(reshaped(grid, (product(grid.dims),)), 1) for grid in grids]
    return join(columns, 1) if len(columns) > 1 else squeeze(columns[0], (1,))


def _unbind(call: OperationCall) -> dict[str, Value]:
    x, axis = call.tensor(0), int(call.number(1, "dim", 0)) % len(call.tensor(0).dims)
    places = [Extent(str(i), i) for i in range(x.sizes[axis])]
    return _named(call, [squeeze(window(x, axis, place, ONE), (axis,)) for place in places])


def _chunk(call: OperationCall) -> dict[str, Value]:
    x, axis = call.tensor(0), int(call.number(2, "dim", 0))
    whole, parts = x.dims[axis], _count(call, "chunks")
    if all(size % parts == 0 for size in (whole.size, *whole.everywhere)):
        return _pieces(call, x, axis, combined(f"({whole.text} // {parts})", lambda n: n // parts, whole), parts)
    longest = combined(f"ceil_div({whole.text}, {parts})", lambda n, k: -(-n // k), whole, extent(parts))
    return _pieces(call, x, axis, longest, -(-whole.size // longest.size))


def _split(call: OperationCall) -> dict[str, Value]:
    x, axis, size = call.tensor(0), int(call.number(2, "dim", 0)), call.operand(1)
    if isinstance(size, tuple):
        return _unequal_pieces(call, x, axis, [one for one in size if isinstance(one, int)])
    if not isinstance(size, int):
        raise not_in_playbook("a split into pieces of unknown sizes")
    whole = x.dims[axis]
    parts = max(1, -(-whole.size // size))
    if agree([combined("", operator.mul, Extent("", size), Extent(str(parts), parts))], [whole]):
        return _pieces(call, x, axis, combined(f"({whole.text} // {parts})", lambda n: n // parts, whole), parts)
    return _pieces(call, x, axis, extent(size), parts)


def _tensor_split(call: OperationCall) -> dict[str, Value]:
    """Return so many pieces, the first ones longer by one where they cannot be equal, or those between the places."""
    x, axis, given = call.tensor(0), int(call.number(2, "dim", 0)), call.operand(1)
    return _between(call, x, axis, given if isinstance(given, tuple) else _count(call, "sections"))


def _split_along(axis: int) -> Callable[[OperationCall], dict[str, Value]]:
    """Return a rule for pieces along a dimension, of a vector along its only one."""

    def rule(call: OperationCall) -> dict[str, Value]:
        x, given = call.tensor(0), call.operand(1)
        along = 0 if len(x.dims) == 1 else axis
        return _between(call, x, along, given if isinstance(given, tuple) else _count(call, "sections"))

    return rule


def _between(call: OperationCall, x: Value, axis: int, given: int | Sequence[object]) -> dict[str, Value]:
    whole = x.dims[axis]
    if isinstance(given, int):
        bounds = list(_equal_bounds(whole, given))
    else:
        inner = (position_of(place, whole) for place in given if isinstance(place, int))
        bounds = [ZERO, *inner, whole]
    return _named(call, [window(x, axis, start, end.less(start)) for start, end in pairwise(bounds)])


def _equal_bounds(whole: Extent, parts: int) -> Iterator[Extent]:
    yield ZERO
    for i in range(1, parts):
        text = f"({i} * ({whole.text} // {parts}) + min({i}, {whole.text} % {parts}))"
        yield combined(text, partial(_longer_first, i), whole, extent(parts))
    yield whole


def _longer_first(index: int, whole: int, parts: int) -> int:
    return index * (whole // parts) + min(index, whole % parts)


def _count(call: OperationCall, name: str) -> int:
    count = call.operand(1, name, 1)
    if not isinstance(count, int) or not is_constant(count):
        raise not_in_playbook("a split into a number of pieces that changes with the sizes")
    return int(count)


def _pieces(call: OperationCall, x: Value, axis: int, length: Extent, parts: int) -> dict[str, Value]:
    """Return pieces of one length; the last one is what is left where there is less."""
    found, whole = [], x.dims[axis]
    for i in range(parts):
        start = _times(length, i)
        left = combined(f"({whole.text} - {start.text})", operator.sub, whole, start)
        found.append(window(x, axis, start, at_most(length, left)))
    return _named(call, found)


def _times(length: Extent, count: int) -> Extent:
    return combined(f"{count} * {length.text}", operator.mul, length, extent(count))


def _unequal_pieces(call: OperationCall, x: Value, axis: int, sizes: Sequence[int]) -> dict[str, Value]:
    """Return pieces one after the other; the last one is what is left."""
    found, start, whole = [], ZERO, x.dims[axis]
    for i, size in enumerate(sizes):
        last = i == len(sizes) - 1
        length = combined(f"({whole.text} - {start.text})", operator.sub, whole, start) if last else extent(size)
        found.append(window(x, axis, start, length))
        start = start.plus(length)
    return _named(call, found)


RULES: Mapping[str, Rule] = {"cartesian_prod": _cartesian}

SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "broadcast_tensors": _broadcast_tensors, "meshgrid": _meshgrid, "chunk": _chunk, "split": _split,
    "split_with_sizes": _split, "unsafe_chunk": _chunk, "unsafe_split": _split, "unsafe_split_with_sizes": _split,
    "unbind": _unbind, "tensor_split": _tensor_split, "vsplit": _split_along(0), "hsplit": _split_along(1),
    "dsplit": _split_along(2),
}  # fmt: skip
