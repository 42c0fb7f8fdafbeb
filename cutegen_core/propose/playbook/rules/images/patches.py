"""Rules of patches: what a window sees at each of its places as a column (`unfold`), and columns added up to images.

Element t of a window at place o is the image's element `o * stride - padding + t * dilation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce as chained
from itertools import product as pairs
from math import prod

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add
from cutegen_core.propose.playbook.rules.taken import length_of
from cutegen_core.propose.playbook.values import (
    ONE,
    Extent,
    Taken,
    Value,
    agree,
    compute,
    extent,
    is_constant,
    permute,
    position,
    product,
    reshape,
    reshaped,
    squeeze,
    window,
    windows,
)
from cutegen_core.propose.playbook.windows.geometry import Window, slide

_MOST_TAPS = 49
"""Each tap of a window has statements of its own where columns are added up."""


def _im2col(call: OperationCall) -> Value:
    """Return the patches of images, one in a column: channel and place in the patch before place in the image."""
    x = call.tensor(0)
    (height, width), dilation, padding, steps = (call.integers(index) for index in (1, 2, 3, 4))
    if {*dilation} != {1} or {*padding} != {0}:
        return reshape(_seen(x, _windows(call, 1, x.dims[-2:])), call.node.shape)
    at = len(x.dims) - 2
    patches = windows(windows(x, at, height, steps[0]), at + 1, width, steps[1])
    return reshape(permute(patches, (*range(at), at + 2, at + 3, at, at + 1)), call.node.shape)


def _windows(call: OperationCall, first: int, images: Sequence[Extent]) -> list[Window]:
    """Return the window along each dimension, from the operands that begin at `first`."""
    taps, dilation, padding, steps = (map(extent, call.integers(first + k)) for k in range(4))
    return [slide(*side) for side in zip(images, taps, steps, padding, dilation, strict=True)]


def _seen(x: Value, slides: Sequence[Window]) -> Value:
    """Return what each tap sees at each place, zero outside of the image: taps before places."""
    high, wide = slides
    dims = (*x.dims[:-2], high.taps, wide.taps, high.places, wide.places)
    places, inside = zip(*(_place(side, axis) for axis, side in enumerate(slides)), strict=True)
    lead = len(x.dims) - 2
    seen = Taken(dims, x.dtype, x, (*[None] * lead, *places), (*range(lead), None, None))
    return compute("{0} && {1} ? {2} : {T}(0)", *inside, seen, dtype=x.dtype)


def _place(side: Window, axis: int) -> tuple[Value, Value]:
    """Return where along a dimension each tap looks at each place, kept inside, and whether it does so inside."""
    dims = (*(side.taps if k == axis else ONE for k in (0, 1)), *(side.places if k == axis else ONE for k in (0, 1)))
    tap, place = position(dims, axis), position(dims, axis + 2)
    numbers = (length_of(one) for one in (side.stride, side.padding, side.dilation))
    where = compute("{1} * {2} - {3} + {0} * {4}", tap, place, *numbers, dtype="int64")
    return _kept_inside(where, side.image)


def _kept_inside(where: Value, image: Extent) -> tuple[Value, Value]:
    length = length_of(image)
    kept = compute("{0} < 0 ? 0L : {0} < {1} ? {0} : {1} - 1", where, length, dtype="int64")
    return kept, compute("{0} >= 0 && {0} < {1}", where, length, dtype="bool")


def _col2im(call: OperationCall) -> Value:
    """Return images of columns: what several patches have of one place is added up."""
    x, images = call.tensor(0), [extent(size) for size in call.integers(1)]
    slides = _windows(call, 2, images)
    taps = [side.taps.size for side in slides]
    if not all(is_constant(n) for n in taps) or prod(taps) > _MOST_TAPS:
        raise not_in_playbook(f"'{call.node.op}' of more than {_MOST_TAPS} elements a patch")
    lead, channels = x.dims[:-2], extent(call.node.shape[-3])
    at = len(lead) + 1
    cells = (*(side.taps for side in slides), *(side.places for side in slides))
    columns = reshaped(x, (*lead, channels, *cells))
    if all(_lie_side_by_side(side) for side in slides):
        order = (*range(at), at + 2, at, at + 3, at + 1)
        return reshaped(permute(columns, order), (*lead, channels, *images))
    return chained(add, (_at_tap(columns, slides, tap) for tap in pairs(*map(range, taps))))


def _lie_side_by_side(side: Window) -> bool:
    """Return whether each element of the image is in one patch."""
    plain = side.padding.text == "0" and side.dilation.text == "1" and side.stride.text == side.taps.text
    return plain and agree([product((side.places, side.taps))], [side.image])


def _at_tap(columns: Value, slides: Sequence[Window], tap: Sequence[int]) -> Value:
    """Return for each element of the image what the patch has there that sees it at this tap, else zero."""
    at = len(columns.dims) - 4
    for k, number in enumerate(tap):
        columns = window(columns, at + k, Extent(str(number), number), ONE)
    columns = squeeze(columns, (at, at + 1))
    places, inside = zip(*(_patch_of(*one) for one in zip((0, 1), slides, tap, strict=True)), strict=True)
    dims = (*columns.dims[:at], *(side.image for side in slides))
    seen = Taken(dims, columns.dtype, columns, (*[None] * at, *places), (*range(at), None, None))
    return compute("{0} && {1} ? {2} : {T}(0)", *inside, seen, dtype=columns.dtype)


def _patch_of(axis: int, side: Window, tap: int) -> tuple[Value, Value]:
    """Return which patch along a dimension sees each element at this tap, and whether there is one."""
    dims = tuple(side.image if k == axis else ONE for k in (0, 1))
    before = side.dilation.times(Extent(str(tap), tap))
    padding, step = length_of(side.padding), length_of(side.stride)
    shifted = compute("{0} + {1} - {2}", position(dims, axis), padding, length_of(before), dtype="int64")
    kept, inside = _kept_inside(compute("{0} / {1}", shifted, step, dtype="int64"), side.places)
    return kept, compute("{0} && {1} >= 0 && {1} % {2} == 0", inside, shifted, step, dtype="bool")


RULES: Mapping[str, Rule] = {"im2col": _im2col, "col2im": _col2im}
