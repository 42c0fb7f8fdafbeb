"""Which elements of each tensor of a graph any implementation must look at, found by walking from the outputs back.

1. Forward: where values are zero whatever the inputs are (`structure`).
2. Backward: every result's region becomes regions of its operands (`regions`). An operation that is not known demands
   nothing of them, so a count taken from the result is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import prod

from cutegen_core.evaluate.roofline import operations as ops
from cutegen_core.evaluate.roofline import windows
from cutegen_core.evaluate.roofline.operations import tensor
from cutegen_core.evaluate.roofline.regions import Box, Region, Shape, Triangle
from cutegen_core.evaluate.roofline.structure import TRIANGLES, Zeros, permutation, sparse, zeros
from cutegen_core.records.graph import Graph, InputFacts, Node

Demand = Mapping[str, Region]
Push = tuple[str, Region]

_SPLITS = ("chunk", "split", "split_with_sizes", "unbind", "tensor_split", "unsafe_chunk", "unsafe_split")
_PRODUCTS = ops.words("matmul mm bmm mv dot linear addmm baddbmm addmv addbmm")
_LHS = {"addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
_WINDOWS = ops.words("conv1d conv2d conv3d max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d")
_WHOLE = ops.words(
    "einsum scaled_dot_product_attention conv_transpose1d conv_transpose2d conv_transpose3d cdist bilinear "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d outer kron tensordot stack"
)


def demand(graph: Graph, facts: Mapping[str, InputFacts], *, generous: bool = False) -> Demand:
    """Regions by node name; a node that is not in it is not needed.

    Args:
        facts: by input name.
        generous: what a straightforward kernel reads, for display: as many rows of a gathered table as there are
            indices (otherwise one, since all indices may be the same), all operands of an operation that is not known.
    """
    return _Walk(graph, zeros(graph, facts), sparse(graph, facts), generous).run()


class _Walk:
    """One backward walk."""

    def __init__(self, graph: Graph, found: Zeros, masks: frozenset[str], generous: bool) -> None:
        self._graph, self._zeros, self._masks, self._generous = graph, found, masks, generous
        self._nodes = ops.by_name(graph)
        self._found: dict[str, Region] = {}

    def run(self) -> Demand:
        for output in self._graph.outputs:
            self._push(output, Region.all(self._nodes[output].shape))
        for node in reversed(self._graph.nodes):
            region = self._found.get(node.name)
            if region is not None and region.count:
                for name, part in self._parts(node, region):
                    self._push(name, part)
        return self._found

    def _push(self, name: str, region: Region) -> None:
        kind = self._zeros.get(name, "")
        if kind == "diagonal":
            shape = region.shape
            region = Region.some(shape, min(region.count, prod(shape[:-2]) * min(shape[-2:], default=1)))
        else:
            region = region.within(TRIANGLES.get(kind))
        known = self._found.get(name)
        self._found[name] = region if known is None else known | region

    def _shape(self, name: str) -> Shape:
        return self._nodes[name].shape

    def _parts(self, node: Node, region: Region) -> Iterator[Push]:
        operation = ops.name(node)
        if operation == "getitem":
            yield from self._item(node, region)
        elif operation in _PRODUCTS:
            yield from self._product(node, region)
        elif operation in ("triu", "tril"):
            offset = ops.number(node, 1, "diagonal", 0)
            yield tensor(node, 0), region.within(Triangle(operation == "tril", offset))
        elif operation in ops.GATHERS or operation == "index":
            yield from self._gather(node, region)
        elif operation in ops.POINTWISE or operation in ops.COPIES:
            yield from self._pointwise(node, region)
        elif operation in _WINDOWS:
            yield from self._windows(node, region)
        elif operation in _WHOLE or operation in ops.ROWS or operation in ops.REDUCTIONS:
            yield from self._rows(node, region)
        elif operation in _VIEWS:
            source = tensor(node, 0)
            yield source, _VIEWS[operation](node, region, self._shape(source))
        elif operation == "cat":
            yield from self._cat(node, region)
        elif self._generous:
            yield from ((name, Region.all(self._shape(name))) for name in node.operands())

    def _pointwise(self, node: Node, region: Region) -> Iterator[Push]:
        """Every operand under broadcasting; a factor that is zero outside a triangle spares the other one there, one
        with zeros anywhere may spare all of it."""
        names = list(node.operands())
        if ops.name(node) in ops.SELECTIONS and not self._generous:
            yield from self._selection(node, region, names)
            return
        for position, name in enumerate(names):
            part = region
            if ops.name(node) == "mul":
                if not self._generous and any(n in self._masks for k, n in enumerate(names) if k != position):
                    continue
                others = [self._zeros.get(n, "") for k, n in enumerate(names) if k != position]
                part = reduce(Region.within, [TRIANGLES[o] for o in others if o in TRIANGLES], region)
            yield name, part.projected(self._shape(name))

    def _selection(self, node: Node, region: Region, names: list[str]) -> Iterator[Push]:
        """The condition; of two alternatives as many elements together as there are results, of a single one none."""
        condition = 0 if ops.name(node) == "where" else 1
        for position, name in enumerate(names):
            shape = self._shape(name)
            if position == condition:
                yield name, region.projected(shape)
            elif ops.name(node) == "where" and len(names) == 3 and shape == region.shape:
                yield name, Region.some(shape, region.count // 2)

    def _rows(self, node: Node, region: Region) -> Iterator[Push]:
        """All of every operand where all of the result is needed; otherwise as many elements as that many rows hold."""
        for name in dict.fromkeys(node.operands()):
            shape = self._shape(name)
            if region.full:
                yield name, Region.all(shape)
            elif ops.name(node) in ops.REDUCTIONS and name == tensor(node, 0):
                yield name, Region.some(shape, region.count * (prod(shape) // max(1, prod(region.shape))))
            elif ops.name(node) in ops.ROWS and name == tensor(node, 0):
                yield name, Region.some(shape, region.count)

    def _product(self, node: Node, region: Region) -> Iterator[Push]:
        """Rows of the left and columns of the right operand; a zero triangle that is not square hides some of them."""
        at = _LHS.get(ops.name(node), 0)
        left, right = tensor(node, at), tensor(node, at + 1)
        if at:
            yield tensor(node, 0), region.projected(self._shape(tensor(node, 0)))
        bias = tensor(node, 2) if ops.name(node) == "linear" else ""
        if bias:
            yield bias, region.projected(self._shape(bias))
        transposed = ops.name(node) == "linear"
        yield left, self._operand(region, self._shape(left), right, side=-2, last=True)
        yield right, self._operand(region, self._shape(right), left, side=-1, last=transposed)

    def _operand(self, region: Region, shape: Shape, other: str, *, side: int, last: bool) -> Region:
        """One operand of a product: whole vectors of the summed dimension, which is its last one or the one before.

        Args:
            side: the result's dimension that this operand has, too.
        """
        if other in self._masks and not self._generous:
            return Region.none(shape)
        hidden = self._zeros.get(other, "") and len(set(self._shape(other)[-2:])) > 1
        if region.full or _touches_all(region):
            return Region.some(shape, prod(shape) // 2) if hidden else Region.all(shape)
        if hidden or len(shape) < 2 or len(region.shape) < 2:
            return Region.none(shape)
        summed = (0, shape[-1] if last else shape[-2])
        boxes = []
        for box in region.boxes:
            own = (box[side], summed) if last else (summed, box[side])
            outer = box[:-2] if len(shape) == len(region.shape) else tuple((0, extent) for extent in shape[:-2])
            boxes.append((*outer, *own))
        return Region(shape, tuple(dict.fromkeys(boxes))) if _fits(shape, boxes) else Region.none(shape)

    def _gather(self, node: Node, region: Region) -> Iterator[Push]:
        operation = ops.name(node)
        table = tensor(node, ops.GATHERS.get(operation, (0, 1))[0])
        indices = [n for n in node.operands() if n != table]
        for name in indices:
            yield name, Region.all(self._shape(name)) if region.full else Region.some(self._shape(name), 1)
        shape = self._shape(table)
        dim = {"embedding": 0, "index_select": ops.number(node, 1, "dim", 0)}.get(operation)
        unit = 1 if dim is None or not shape else prod(shape) // max(1, shape[dim])
        yield table, Region.some(shape, min(prod(shape), region.count) if self._generous else min(unit, region.count))

    def _windows(self, node: Node, region: Region) -> Iterator[Push]:
        """Strides larger than the window skip elements."""
        source = tensor(node, 0)
        shape, rank = self._shape(source), int(ops.name(node)[-2])
        pooling, given = "pool" in ops.name(node), windows.windows(node, rank, self._nodes)
        sides = list(zip(shape[-rank:], node.shape[-rank:], given, strict=True))
        if not pooling:
            weights, *bias = list(node.operands())[1:]
            taps = [windows.taps(extent, out, *window) for extent, out, window in sides]
            yield weights, Region.some(self._shape(weights), prod(self._shape(weights)[:-rank]) * prod(taps))
            yield from ((name, Region.all(self._shape(name))) for name in bias)
        if not region.full:
            yield source, Region.some(shape, 1)
            return
        touched = [windows.touched(extent, out, *window) for extent, out, window in sides]
        yield source, Region.some(shape, prod(shape[:-rank]) * prod(touched))

    def _cat(self, node: Node, region: Region) -> Iterator[Push]:
        dim, start = ops.number(node, 1, "dim", 0) % len(node.shape), 0
        for name in node.operands():
            shape = self._shape(name)
            yield name, region.clipped(shape, dim, start)
            start += shape[dim]

    def _item(self, node: Node, region: Region) -> Iterator[Push]:
        """One of several results: part of the source of a split, the whole of anything else."""
        source = self._nodes[tensor(node, 0)]
        index = ops.number(node, 1, "", 0)
        if ops.name(source) not in _SPLITS:
            yield source.name, region.moved(source.shape)
            return
        target = tensor(source, 0)
        shape = self._shape(target)
        if ops.name(source) == "unbind":
            yield target, _selected(region, shape, ops.number(source, 1, "dim", 0) % len(shape), index)
            return
        dim = ops.number(source, 2, "dim", 0) % len(shape)
        sizes = ops.argument(source, 1)
        start = sum(ops.numbers(sizes, 1, 0)[:index]) if isinstance(sizes, tuple) else index * source.shape[dim]
        yield target, region.shifted(shape, dim, start)


def _fits(shape: Shape, boxes: list[Box]) -> bool:
    """Whether all boxes lie in a tensor of that shape: batch dimensions may have been broadcast."""
    return all(stop <= extent for box in boxes for (_, stop), extent in zip(box, shape, strict=True))


def _touches_all(region: Region) -> bool:
    """Whether every row and every column of a triangular result has an element in it."""
    if region.triangle is None:
        return False
    rows, columns = region.shape[-2:]
    corner = region.triangle.offset
    return rows == columns and (corner >= 0 if region.triangle.lower else corner <= 0)


def _sliced(node: Node, region: Region, shape: Shape) -> Region:
    dim = ops.number(node, 1, "dim", 0) % len(shape)
    start = max(0, min(shape[dim], _from_end(ops.number(node, 2, "start", 0), shape[dim])))
    return region.shifted(shape, dim, start, ops.number(node, 4, "step", 1))


def _from_end(index: int, extent: int) -> int:
    return index + extent if index < 0 else index


def _select(node: Node, region: Region, shape: Shape) -> Region:
    dim = ops.number(node, 1, "dim", 0) % len(shape)
    return _selected(region, shape, dim, _from_end(ops.number(node, 2, "index", 0), shape[dim]))


def _selected(region: Region, shape: Shape, dim: int, index: int) -> Region:
    if not region.boxes:
        return Region.some(shape, region.count)
    boxes = tuple((*box[:dim], (index, index + 1), *box[dim:]) for box in region.boxes)
    return Region(shape, boxes)


def _narrow(node: Node, region: Region, shape: Shape) -> Region:
    return region.shifted(shape, ops.number(node, 1, "dim", 0) % len(shape), ops.number(node, 2, "start", 0))


def _expanded(node: Node, region: Region, shape: Shape) -> Region:
    return region.projected(shape)


def _permuted(node: Node, region: Region, shape: Shape) -> Region:
    order = permutation(node, shape)
    # `order` says where the operand's dimensions go; the way back is its inverse
    return region.permuted(tuple(order.index(k) for k in range(len(order))), shape)


def _reshaped(node: Node, region: Region, shape: Shape) -> Region:
    return region.moved(shape)


_VIEWS: Mapping[str, Callable[[Node, Region, Shape], Region]] = {
    "slice": _sliced, "select": _select, "narrow": _narrow, "expand": _expanded, "expand_as": _expanded,
    "unsqueeze": _reshaped, "squeeze": _reshaped, "diag": _reshaped, "diag_embed": _reshaped, "diagonal": _reshaped,
    **dict.fromkeys(ops.RESHAPES, _reshaped), **dict.fromkeys(ops.PERMUTES, _permuted),
}  # fmt: skip
