"""Find which elements of its operand a view shows, through slices, transpositions and splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from cutegen_core.evaluate.roofline import windows
from cutegen_core.evaluate.roofline.operands import number, numbers
from cutegen_core.evaluate.roofline.regions import ElementSet, Shape
from cutegen_core.evaluate.roofline.structure import permutation
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Node
from cutegen_core.records.operations import Flow


def split_part(split: Node, index: int, region: ElementSet, shape: Shape) -> ElementSet:
    """Find the elements of a split's operand, of that shape, that are a region of its part number `index`."""
    if ops.name(split) == "unbind":
        return _selected(region, shape, number(split, 1, "dim", 0) % len(shape), index)
    dim = number(split, 2, "dim", 0) % len(shape)
    return region.shifted(shape, dim, _start(split, index, shape[dim], split.shape[dim]))


def _start(split: Node, index: int, extent: int, first: int) -> int:
    """Return where a part of a split begins: sizes or places are listed, or all parts but the last are as long as the
    first."""
    listed = split.argument(1)
    if ops.name(split) == "tensor_split":
        if isinstance(listed, tuple):
            return (0, *numbers(listed, 1, 0))[index]
        parts = number(split, 1, "", 1)
        return index * (extent // parts) + min(index, extent % parts)
    return sum(numbers(listed, 1, 0)[:index]) if isinstance(listed, tuple) else index * first


def _sliced(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    dim = number(node, 1, "dim", 0) % len(shape)
    start = max(0, min(shape[dim], _from_end(number(node, 2, "start", 0), shape[dim])))
    return region.shifted(shape, dim, start, number(node, 4, "step", 1))


def _from_end(index: int, extent: int) -> int:
    return index + extent if index < 0 else index


def _select(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    dim = number(node, 1, "dim", 0) % len(shape)
    return _selected(region, shape, dim, _from_end(number(node, 2, "index", 0), shape[dim]))


def _selected(region: ElementSet, shape: Shape, dim: int, index: int) -> ElementSet:
    if not region.boxes:
        return ElementSet.some(shape, region.count)
    boxes = tuple((*box[:dim], (index, index + 1), *box[dim:]) for box in region.boxes)
    return ElementSet(shape, boxes)


def _narrow(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    dim = number(node, 1, "dim", 0) % len(shape)
    return region.shifted(shape, dim, _from_end(number(node, 2, "start", 0), shape[dim]))


def _expanded(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    return region.projected(shape)


def _permuted(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    order = permutation(node, shape)
    # `order` says where the operand's dimensions go; the way back is its inverse
    return region.permuted(tuple(order.index(k) for k in range(len(order))), shape)


def _reshaped(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    return region.moved(shape)


def _part(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    return {"slice": _sliced, "select": _select, "narrow": _narrow, "unfold": _unfolded}[ops.name(node)](
        node, region, shape
    )


def _unfolded(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    """Return windows along one dimension, which may overlap or skip elements."""
    if not region.full or not shape:
        return ElementSet.some(shape, 1)
    dim = number(node, 1, "dimension", 0) % len(shape)
    size, step = number(node, 2, "size", 1), number(node, 3, "step", 1)
    touched = windows.touched(shape[dim], node.shape[dim], size, step, 0, 1)
    return ElementSet.some(shape, prod(shape) // max(1, shape[dim]) * touched)


def _diagonal(node: Node, region: ElementSet, shape: Shape) -> ElementSet:
    """Return as many elements as results; a region of a matrix that is only a diagonal counts only what is on it."""
    return ElementSet.some(shape, min(shape) if ops.name(node) == "trace" else region.count)


SHOWN: Mapping[Flow, Callable[[Node, ElementSet, Shape], ElementSet]] = {
    Flow.PART: _part, Flow.EXPAND: _expanded, Flow.RESHAPE: _reshaped, Flow.PERMUTE: _permuted,
    Flow.DIAGONAL: _diagonal,
}  # fmt: skip
"""How an operation of such a flow sees the operand: the operation, a region of its result, the operand's shape."""
