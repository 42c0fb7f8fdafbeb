"""Find which elements of each tensor of a graph any implementation must read, by walking from the outputs back.

1. Forward: where values are zero whatever the inputs are (`structure`).
2. Backward: every result's region becomes regions of its operands (`regions`). An operation that is not known demands
   nothing of them, so a count taken from the result is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import prod

from cutegen_core.evaluate.roofline import view_regions, windows
from cutegen_core.evaluate.roofline.operands import by_name, number, tensor
from cutegen_core.evaluate.roofline.places import Places
from cutegen_core.evaluate.roofline.regions import Box, ElementSet, Shape, Triangle
from cutegen_core.evaluate.roofline.structure import TRIANGLES, Zeros, sparse, zeros
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, InputFacts, Node, Ref
from cutegen_core.records.operations import ROWS, Flow

_WHOLE_LINES = (Flow.SORT, Flow.SOFTMAX)
"""Every result depends on all elements of its line."""

Demand = Mapping[str, ElementSet]
Push = tuple[str, ElementSet]


def demand(graph: Graph, facts: Mapping[str, InputFacts], *, generous: bool = False) -> Demand:
    """Return the needed elements by node name; a missing node is not needed.

    Args:
        facts: by input name.
        generous: what a straightforward kernel reads, for display: as many rows of a gathered table as there are
            indices (otherwise those that must differ, one where nothing is known of the indices), all operands of an
            operation that is not known.
    """
    return _Walk(graph, zeros(graph, facts), sparse(graph, facts), facts, generous).run()


class _Walk:
    """A backward walk."""

    def __init__(
        self, graph: Graph, found: Zeros, masks: frozenset[str], facts: Mapping[str, InputFacts], generous: bool
    ) -> None:
        self._graph, self._zeros, self._masks, self._generous = graph, found, masks, generous
        self._places = Places(graph, facts)
        self._nodes = by_name(graph)
        self._found: dict[str, ElementSet] = {}
        self._overwritten = {} if generous else dict(self._writes_to_parts())

    def _writes_to_parts(self) -> Iterator[tuple[str, int]]:
        """Yield the tensors to whose parts something is written in place, with how many elements that may be: what
        was there need not be read."""
        counts: Counter[str] = Counter()
        for node in filter(ops.writes_operand, self._graph.nodes):
            name = first = tensor(node, 0)
            while name and ops.traits(self._nodes[name]).flow in ops.VIEWS:
                name = tensor(self._nodes[name], 0)
            if name and name != first:
                counts[name] += prod(node.shape)
        yield from counts.items()

    def run(self) -> Demand:
        for output in self._graph.outputs:
            self._push(output, ElementSet.all(self._nodes[output].shape))
        for node in reversed(self._graph.nodes):
            region = self._found.get(node.name)
            if region is not None and node.name in self._overwritten:
                region = ElementSet.some(region.shape, region.count - self._overwritten[node.name])
                self._found[node.name] = region
            if region is not None and region.count:
                for name, part in self._parts(node, region):
                    self._push(name, part)
        return self._found

    def _push(self, name: str, region: ElementSet) -> None:
        kind = self._zeros.get(name, "")
        if kind == "diagonal":
            shape = region.shape
            beside = prod(shape) - prod(shape[:-2]) * min(shape[-2:], default=1)
            region = ElementSet.some(shape, region.count - beside)
        else:
            region = region.within(TRIANGLES.get(kind))
        known = self._found.get(name)
        self._found[name] = region if known is None else known | region

    def _shape(self, name: str) -> Shape:
        return self._nodes[name].shape

    def _parts(self, node: Node, region: ElementSet) -> Iterator[Push]:
        flow = ops.traits(node).flow
        if flow in view_regions.SHOWN:
            source = tensor(node, 0)
            yield source, view_regions.SHOWN[flow](node, region, self._shape(source))
        else:
            yield from _STEPS.get(flow, _Walk._unknown)(self, node, region)

    def _nothing(self, node: Node, region: ElementSet) -> Iterator[Push]:
        yield from ()

    def _unknown(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need everything for display, and nothing that could be held against a kernel."""
        if self._generous:
            yield from ((name, ElementSet.all(self._shape(name))) for name in node.operands())

    def _copy(self, node: Node, region: ElementSet) -> Iterator[Push]:
        source = tensor(node, ops.traits(node).at)
        if source:
            yield source, region.projected(self._shape(source))

    def _pointwise(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need every operand under broadcasting; a factor that is zero outside a triangle spares the other one there,
        and one with zeros anywhere may spare all of it."""
        names = list(node.operands())
        if ops.traits(node).some and not self._generous:
            yield from self._selection(node, region, names)
            return
        for position, name in enumerate(names):
            part = region
            if ops.name(node) == "mul":
                if not self._generous and any(n in self._masks for k, n in enumerate(names) if k != position):
                    continue
                others = [self._zeros.get(n, "") for k, n in enumerate(names) if k != position]
                part = reduce(ElementSet.within, [TRIANGLES[o] for o in others if o in TRIANGLES], region)
            yield name, part.projected(self._shape(name))

    def _selection(self, node: Node, region: ElementSet, names: list[str]) -> Iterator[Push]:
        """Need the condition; of two alternatives as many elements together as results, of a single one none."""
        condition = 0 if ops.name(node) == "where" else 1
        for position, name in enumerate(names):
            shape = self._shape(name)
            if position == condition:
                yield name, region.projected(shape)
            elif ops.name(node) == "where" and len(names) == 3 and shape == region.shape:
                yield name, ElementSet.some(shape, region.count // 2)

    def _channelwise(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need the operand's own elements, and all that the channels have."""
        source, *others = dict.fromkeys(node.operands())
        yield source, region
        if region.full:
            yield from ((name, ElementSet.all(self._shape(name))) for name in others)

    def _triangle(self, node: Node, region: ElementSet) -> Iterator[Push]:
        yield tensor(node, 0), region.within(Triangle(ops.name(node) == "tril", number(node, 1, "diagonal", 0)))

    def _moved(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need all of the operand, unless places depend on values, a negative padding cuts some of it off, or another
        tensor takes the place of some of it."""
        if "scatter" in ops.name(node):
            yield from self._put_in(node, region)
            return
        padding = node.argument(1, "pad") if "pad" in ops.name(node) else ()
        cut = isinstance(padding, tuple) and any(isinstance(p, int) and p < 0 for p in padding)
        yield from self._unknown(node, region) if ops.traits(node).some or cut else self._rows(node, region)

    def _put_in(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need what is put into the operand, and the rest of that."""
        base, source = tensor(node, 0), tensor(node, 1)
        if region.full:
            put = ElementSet.all(self._shape(source))
            yield source, put
            yield base, ElementSet.some(self._shape(base), region.count - put.count)

    def _rows(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need all of every operand if all of the result is needed; whole rows where each result depends on its row;
        else as many elements as that many rows hold."""
        if ops.traits(node).some:
            yield from self._unknown(node, region)
            return
        for name in dict.fromkeys(node.operands()):
            shape = self._shape(name)
            if region.full:
                yield name, ElementSet.all(shape)
            elif region.boxes and shape == node.shape and ops.traits(node).flow in _WHOLE_LINES:
                yield name, region.widened(number(node, 1, "dim", _line(node)) % len(shape))
            elif ops.traits(node).flow in ROWS and name == tensor(node, 0):
                yield name, ElementSet.some(shape, region.count * max(1, prod(shape) // max(1, prod(region.shape))))

    def _product(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need rows of the left and columns of the right operand; a zero triangle that is not square hides some of
        them."""
        at = ops.traits(node).at
        left, right = tensor(node, at), tensor(node, at + 1)
        if ops.name(node) == "matrix_power":
            if number(node, 1, "n", 1):  # else it is the unit matrix
                yield left, ElementSet.all(self._shape(left))
            return
        if at and node.kwargs.get("beta", 1) != 0:
            yield tensor(node, 0), region.projected(self._shape(tensor(node, 0)))
        bias = tensor(node, 2) if ops.name(node) == "linear" else ""
        if bias:
            yield bias, region.projected(self._shape(bias))
        transposed = ops.name(node) in ("linear", "inner")
        yield left, self._operand(region, self._shape(left), right, side=-2, last=True)
        yield right, self._operand(region, self._shape(right), left, side=-1, last=transposed)

    def _operand(self, region: ElementSet, shape: Shape, other: str, *, side: int, last: bool) -> ElementSet:
        """Need whole vectors of the summed dimension of one operand, its last or last but one.

        Args:
            side: the result's dimension that this operand has, too.
        """
        if other in self._masks and not self._generous:
            return ElementSet.none(shape)
        hidden = self._zeros.get(other, "") and len(set(self._shape(other)[-2:])) > 1
        if region.full or _touches_all(region):
            return ElementSet.some(shape, prod(shape) // 2) if hidden else ElementSet.all(shape)
        if hidden or len(shape) < 2 or len(region.shape) < 2:
            return ElementSet.none(shape)
        summed = (0, shape[-1] if last else shape[-2])
        boxes = []
        for box in region.boxes:
            own = (box[side], summed) if last else (summed, box[side])
            outer = box[:-2] if len(shape) == len(region.shape) else tuple((0, extent) for extent in shape[:-2])
            boxes.append((*outer, *own))
        return ElementSet(shape, tuple(dict.fromkeys(boxes))) if _fits(shape, boxes) else ElementSet.none(shape)

    def _gather(self, node: Node, region: ElementSet) -> Iterator[Push]:
        operation = ops.name(node)
        table = tensor(node, 0)
        indices = [n for n in node.operands() if n != table]
        for name in indices:
            yield name, ElementSet.all(self._shape(name)) if region.full else ElementSet.some(self._shape(name), 1)
        shape = self._shape(table)
        dim = {"embedding": 0, "index_select": number(node, 1, "dim", 0)}.get(operation)
        unit = 1 if dim is None or not shape else prod(shape) // max(1, shape[dim])
        if dim is not None and region.full and len(indices) == 1:  # elsewhere -1 may be the same place as the last
            unit *= max(1, self._places.distinct(indices[0]))
        yield (
            table,
            ElementSet.some(shape, min(prod(shape), region.count) if self._generous else min(unit, region.count)),
        )

    def _scatter(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need the places; of added values all sources, of overwritten ones none, since all places may be the same.
        What is overwritten need not be read."""
        traits = ops.traits(node)
        base, source = tensor(node, 0), tensor(node, traits.at)
        if self._generous or not region.full:
            yield from self._unknown(node, region)
            return
        for name in node.operands():
            if name not in (base, source):
                yield name, ElementSet.all(self._shape(name))
        added = not traits.some and node.argument(99, "include_self") is not False
        if not traits.some:
            yield source, ElementSet.all(self._shape(source))
        if added:
            yield base, region
        elif ops.name(node) not in ("index_put", "index_fill") and source:
            yield base, ElementSet.some(self._shape(base), region.count - prod(self._shape(source)))

    def _segment(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need everything for segments that cover their data: by lengths, or by offsets that are known to. Of a table
        bags need the rows that must differ."""
        table, *others = node.operands()
        shape = self._shape(table)
        bags = ops.name(node) == "embedding_bag"
        if self._generous and bags:
            rows = prod(self._shape(others[0]))
            yield table, ElementSet.some(shape, min(prod(shape), rows * shape[-1]))
            yield from ((name, ElementSet.all(self._shape(name))) for name in others)
        elif self._generous or not region.full:
            yield from self._unknown(node, region)
        elif bags:
            whole = not node.argument(7, "include_last_offset") or self._covers(others[1], self._shape(others[0]))
            plain = len(others) == 2 and node.argument(8, "padding_idx") in (None, -1)
            rows = max(1, self._places.distinct(others[0]) if plain else 1)
            yield table, ElementSet.some(shape, rows * shape[-1] if whole else 0)
            for position, name in enumerate(others):
                yield (
                    name,
                    ElementSet.all(self._shape(name)) if whole or position == 1 else ElementSet.none(self._shape(name)),
                )
        else:
            covered = node.argument(99, "lengths") is not None and not node.argument(99, "unsafe")
            offsets = node.argument(99, "offsets")
            covered = covered or (isinstance(offsets, Ref) and self._covers(offsets.node, shape))
            yield table, ElementSet.all(shape) if covered else ElementSet.none(shape)
            yield from ((name, ElementSet.all(self._shape(name))) for name in others)

    def _covers(self, offsets: str, shape: Shape) -> bool:
        """Tell whether segments by these offsets hold everything along the first dimension of their data."""
        return self._places.ends(offsets) == (0, shape[0])

    def _windows(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Skip elements between windows where strides are larger than the window."""
        source = tensor(node, 0)
        pooling = ops.traits(node).flow is Flow.POOLING
        rank = ops.traits(node).spatial if pooling else len(self._shape(tensor(node, 1))) - 2
        if not rank:
            yield from self._rows(node, region)
            return
        shape, given = self._shape(source), windows.windows(node, rank, self._nodes)
        sides = list(zip(shape[-rank:], node.shape[-rank:], given, strict=True))
        if not pooling:
            weights, *bias = list(node.operands())[1:]
            taps = [windows.taps(extent, out, *window) for extent, out, window in sides]
            yield weights, ElementSet.some(self._shape(weights), prod(self._shape(weights)[:-rank]) * prod(taps))
            yield from ((name, ElementSet.all(self._shape(name))) for name in bias)
        if not region.full:
            yield source, ElementSet.some(shape, 1)
            return
        touched = [windows.touched(extent, out, *window) for extent, out, window in sides]
        yield source, ElementSet.some(shape, prod(shape[:-rank]) * prod(touched))

    def _join(self, node: Node, region: ElementSet) -> Iterator[Push]:
        yield from self._cat(node, region) if ops.name(node) == "cat" else self._rows(node, region)

    def _cat(self, node: Node, region: ElementSet) -> Iterator[Push]:
        dim, start = number(node, 1, "dim", 0) % len(node.shape), 0
        for name in node.operands():
            shape = self._shape(name)
            yield name, region.clipped(shape, dim, start)
            start += shape[dim]

    def _item(self, node: Node, region: ElementSet) -> Iterator[Push]:
        """Need, of one of several results, what a split shows of its operand, or the whole of anything else."""
        source = self._nodes[tensor(node, 0)]
        index = number(node, 1, "", 0)
        if ops.traits(source).flow is not Flow.SPLIT:
            yield source.name, region.moved(source.shape)
        elif ops.name(source) in ("broadcast_tensors", "meshgrid"):
            target = list(source.operands())[index]
            shape = self._shape(target)
            broadcast = ops.name(source) == "broadcast_tensors"
            yield target, region.projected(shape) if broadcast else ElementSet.some(shape, prod(shape) * region.full)
        else:
            target = tensor(source, 0)
            shape = self._shape(target)
            yield target, view_regions.split_part(source, index, region, shape)


_STEPS: Mapping[Flow, Callable[[_Walk, Node, ElementSet], Iterator[Push]]] = {
    Flow.INPUT: _Walk._nothing, Flow.CREATION: _Walk._nothing, Flow.SPLIT: _Walk._nothing, Flow.ITEM: _Walk._item,
    Flow.POINTWISE: _Walk._pointwise, Flow.CHANNELWISE: _Walk._channelwise, Flow.COPY: _Walk._copy,
    Flow.TRIANGLE: _Walk._triangle, Flow.JOIN: _Walk._join, Flow.MOVE: _Walk._moved,
    Flow.PRODUCT: _Walk._product, Flow.CONVOLUTION: _Walk._windows, Flow.POOLING: _Walk._windows,
    Flow.GATHER: _Walk._gather, Flow.SCATTER: _Walk._scatter, Flow.SEGMENT: _Walk._segment,
    Flow.CONTRACTION: _Walk._rows, Flow.ATTENTION: _Walk._rows, Flow.TRANSPOSED_CONVOLUTION: _Walk._rows,
    Flow.EXPANSION: _Walk._rows, **dict.fromkeys(ROWS, _Walk._rows),
}  # fmt: skip
"""What one operation asks of its operands; the other flows are in `view_regions.SHOWN`, or unknown, as COMPOSITE is."""


def _line(node: Node) -> int:
    """Return the dimension along which an operation sorts, where none is given."""
    return 0 if ops.name(node) == "msort" else -1


def _fits(shape: Shape, boxes: list[Box]) -> bool:
    """Return whether all boxes lie in a tensor of that shape: batch dimensions may have been broadcast."""
    return all(stop <= extent for box in boxes for (_, stop), extent in zip(box, shape, strict=True))


def _touches_all(region: ElementSet) -> bool:
    """Return whether every row and every column of a triangular result has an element in it."""
    if region.triangle is None:
        return False
    rows, columns = region.shape[-2:]
    corner = region.triangle.offset
    return rows == columns and (corner >= 0 if region.triangle.lower else corner <= 0)
