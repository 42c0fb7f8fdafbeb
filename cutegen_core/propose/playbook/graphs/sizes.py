"""Tell the numbers of a traced graph that follow the workload's sizes from those that never change.

A graph holds plain numbers: a group count, the end of a slice, `1 / sqrt(d)`. They are those of one workload. Traced
again at others:

1. A number that is the same everywhere is a constant.
2. One that differs must be an expression of the plan's names: a dimension or a number of the module, at every workload.
3. One that differs in no known way has no kernel that holds for all workloads: `text_of` raises NotInPlaybook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, groupby, product
from math import prod

from cutegen_core.propose.playbook.values import NotInPlaybook, Sized, SizedFloat, SizedInt
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Operand
from cutegen_core.records.problem import Signature, TensorSpec

Traced = tuple[Graph, Signature]
"""A reference at one workload."""
_Numbers = tuple[int | float, ...]
"""One number at every workload."""
_MOST_SHARES = 8

_DEFAULTS: tuple[tuple[str, tuple[Operand, ...]], ...] = (
    ("conv_transpose", (None, None, None, 1, 0, 0, 1, 1)),
    ("conv", (None, None, None, 1, 0, 1, 1)),
    ("max_pool", (None, None, None, 0, 1, False)),
    ("avg_pool", (None, None, None, 0, False, True, None)),
)
"""Operands of a number for each dimension, or for the groups, by the beginning of the operation's name."""


def with_sizes(graph: Graph, signature: Signature, others: Sequence[Traced]) -> Graph:
    """Return the graph with every number as it follows the sizes, from the same reference at other workloads.

    Raises:
        NotInPlaybook: the operations themselves change with the sizes.
    """
    usable = [(g, s) for g, s in others if g.nodes]
    if not usable or not graph.nodes:
        return graph
    graphs = [graph, *(g for g, _ in usable)]
    if _differ(graphs):
        graphs = list(map(_without_copies, graphs))
    if _differ(graphs):
        raise NotInPlaybook(_first_change(graphs))
    names = _PlanNames([signature, *(s for _, s in usable)])
    nodes = tuple(_node(nodes, names) for nodes in zip(*(g.nodes for g in graphs), strict=True))
    constants = {}
    for column in zip(*(g.nodes for g in graphs), strict=True):
        numbers = [g.constants.get(node.name, ()) for g, node in zip(graphs, column, strict=True)]
        if all(numbers):
            constants[column[0].name] = _numbers(_operands(numbers, names))
    return replace(graphs[0], nodes=nodes, constants=constants)


def _differ(graphs: Sequence[Graph]) -> bool:
    return len({_operations(graph) for graph in graphs}) > 1


def _without_copies(graph: Graph) -> Graph:
    """Return the graph without `contiguous`, which the trace has only where it moves something: what is 1 somewhere
    needs no move. It stays where something is written, maybe to a copy."""
    if any(map(ops.writes_operand, graph.nodes)):
        return graph
    names: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        if ops.name(node) == "contiguous":
            (operand,) = node.operands()
            names[node.name] = names.get(operand, operand)
        else:
            nodes.append(node.reading(lambda name: names.get(name, name)))
    return replace(graph, nodes=tuple(nodes), outputs=tuple(names.get(name, name) for name in graph.outputs))


def _operations(graph: Graph) -> tuple[object, ...]:
    """Return what a graph does, without its numbers and names: an unused piece of a split has taken a name, too."""
    places = {node.name: k for k, node in enumerate(graph.nodes)}
    nodes = ((n.op, tuple(n.kwargs), tuple(places[name] for name in n.operands())) for n in graph.nodes)
    return (*nodes, tuple(places[name] for name in graph.outputs))


def _first_change(graphs: Sequence[Graph]) -> str:
    """Say where the operations of two workloads part."""
    done = [_operations(graph) for graph in graphs]
    other = next(k for k, operations in enumerate(done) if operations != done[0])
    place = next(k for k, (one, two) in enumerate(zip(done[0], done[other], strict=False)) if one != two)
    parted = [graph.nodes[place] for graph in (graphs[0], graphs[other]) if place < len(graph.nodes)]
    line = f"line {parted[0].line}: " if parted and parted[0].line else ""
    words = [f"aten.{ops.name(node)}" for node in parted] + ["nothing more"] * (2 - len(parted))
    told = f"{words[0]} at some, {words[1]} at others" if words[0] != words[1] else f"another {words[0]}"
    return f"{line}a reference whose operations change with the sizes of the workload ({told}) is not in the playbook"


class _PlanNames:
    """The numbers that a plan knows by name."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._dimensions = _common([dict(_dimensions(s.inputs)) for s in signatures])
        self._of_outputs = _common([dict(_dimensions(s.outputs)) for s in signatures])
        self._known = {**self._dimensions, **_common([dict(s.scalars) for s in signatures])}
        self._found: dict[tuple[type[Sized], _Numbers], SizedInt | SizedFloat] = {}

    def number(self, values: _Numbers) -> SizedInt | SizedFloat:
        """Return a number with its expression; without one if there is none."""
        made: type[SizedInt | SizedFloat] = SizedInt if all(isinstance(v, int) for v in values) else SizedFloat
        key = (made, values)  # 1 and 1.0 are equal
        if key not in self._found:
            text = _text(values) if len(set(values)) == 1 else next(self._expressions(values), "")
            self._found[key] = made.of(values[0], text, values)
        return self._found[key]

    def _expressions(self, values: _Numbers) -> Iterator[str]:
        known = self._known
        yield from (name for name, own in known.items() if own == values)
        if not all(isinstance(v, int) for v in values):
            for power in ("-0.5", "0.5", "-1"):
                whole = _whole_of(values, float(power))
                yield from (f"{_as_one(text)} ** {power}" for text in (self._expressions(whole) if whole else ()))
            yield from (text for name, own in known.items() for text in _scaled(name, own, values))
            if all(float(v).is_integer() for v in values):
                yield from (f"1.0 * {_as_one(text)}" for text in self._expressions(tuple(map(int, values))))
            return
        if all(v < 0 for v in values):
            yield from (f"(0 - {text})" for text in self._expressions(tuple(-v for v in values)))
            return
        for name, own in known.items():
            yield from _shifted(name, own, values)
        for (a, of_a), (b, of_b) in product(known.items(), repeat=2):
            if all(x * y == v for x, y, v in zip(of_a, of_b, values, strict=True)):
                yield f"{a} * {b}"
            if all(y and x // y == v for x, y, v in zip(of_a, of_b, values, strict=True)):
                yield f"({a} // {b})"
        yield from (text for text, own in _long_products(self._dimensions) if own == values)
        for text, own in _long_products(self._dimensions):
            yield from _shifted(f"({text})", own, values)
        yield from (text for name, own in known.items() for text in _pairs(name, own, values))
        for own, name in self._wholes:
            yield from (text for text, share in _shares(name, own) if share == values)
        if 1 in values and min(values) == 1:
            yield from self._at_least_one(values)
        yield from (name for name, own in self._of_outputs.items() if own == values)

    @cached_property
    def _wholes(self) -> Sequence[tuple[_Numbers, str]]:
        """The whole numbers, and what is left of each without another, or without it twice."""
        wholes = [(own, name) for name, own in self._known.items() if all(isinstance(n, int) for n in own)]
        left = {
            tuple(x - times * y for x, y in zip(of_a, of_b, strict=True)): f"({a} - {f'{times} * ' * (times > 1)}{b})"
            for times, (of_a, a), (of_b, b) in product((2, 1), wholes, wholes)
        }
        return [*wholes, *left.items()]

    def _at_least_one(self, values: _Numbers) -> Iterator[str]:
        """Yield `max(..., 1)` of what is less by a constant, or a share."""
        for name, own in self._known.items():
            largest = max(range(len(values)), key=lambda k: (values[k], own[k]))
            less = own[largest] - values[largest]
            if 0 < less < own[largest] and tuple(max(n - less, 1) for n in own) == values:
                yield f"max({name} - {less}, 1)"
            first, last = int(own[largest] // (values[largest] + 1)) + 1, int(own[largest] // values[largest])
            for parts in range(max(first, 2), min(last, first + _MOST_SHARES) + 1):
                if tuple(max(n // parts, 1) for n in own) == values:
                    yield f"max({name} // {parts}, 1)"


def _shares(name: str, own: _Numbers) -> Iterator[tuple[str, _Numbers]]:
    """Yield a number, its shares rounded down and up, and what is missing to a multiple, as edges have it."""
    yield name, own
    for parts in range(2, _MOST_SHARES + 1):
        yield f"({name} // {parts})", tuple(n // parts for n in own)
        yield f"(({name} + {parts - 1}) // {parts})", tuple((n + parts - 1) // parts for n in own)
    for power in range(1, _MOST_SHARES):
        of = 2**power
        yield f"(({name} + {of - 1}) // {of} * {of} - {name})", tuple((n + of - 1) // of * of - n for n in own)


def _scaled(name: str, own: _Numbers, values: _Numbers) -> Iterator[str]:
    """Yield the expression of numbers that are a constant times these, or a constant divided by these."""
    if not all(own) or len(set(own)) == 1 or min(values) <= 0:
        return
    for power, scales in (("", [v / n for v, n in zip(values, own, strict=True)]),
                          (" ** -1", [v * n for v, n in zip(values, own, strict=True)])):  # fmt: skip
        if all(abs(scale - scales[0]) <= 1e-12 * abs(scales[0]) for scale in scales):
            yield f"{scales[0]!r} * {name}{power}"


def _long_products(dimensions: Mapping[str, _Numbers]) -> Iterator[tuple[str, _Numbers]]:
    """Yield the products of three and more dimensions of a tensor, such as all but its channels."""
    for _, names in groupby(dimensions, key=lambda name: name.partition(".")[0]):
        own = list(names)
        for count in range(3, len(own) + 1):
            for chosen in combinations(own, count):
                yield " * ".join(chosen), tuple(map(prod, zip(*(dimensions[name] for name in chosen), strict=True)))


def _pairs(name: str, own: _Numbers, values: _Numbers) -> Iterator[str]:
    """Yield how many pairs there are of so many things, if these are the values, without or with those of one thing."""
    for sign, step in (("-", -1), ("+", 1)):
        if all(n * (n + step) == 2 * v for n, v in zip(own, values, strict=True)):
            yield f"({name} * ({name} {sign} 1) // 2)"


def _shifted(name: str, own: _Numbers, values: _Numbers) -> Iterator[str]:
    """Yield the expression of values that differ from these by a constant, or by a constant factor."""
    steps = {v - n for v, n in zip(values, own, strict=True)}
    if len(steps) == 1:
        (step,) = steps
        yield f"({name} {'-' if step < 0 else '+'} {abs(step)})"
    if own[0] and values[0] and values[0] % own[0] == 0 and _all_equal(v - n * (values[0] // own[0]) for v, n in
                                                                      zip(values, own, strict=True)):  # fmt: skip
        yield f"{values[0] // own[0]} * {name}"
    parts = own[0] // values[0] if values[0] else 0
    if parts > 1 and all(n // parts == v for v, n in zip(values, own, strict=True)):
        yield f"({name} // {int(parts)})"


def _all_equal(differences: Iterator[int | float]) -> bool:
    return not any(differences)


def _whole_of(values: _Numbers, power: float) -> tuple[int, ...]:
    """Return the whole numbers of which these are a power; () if there are none."""
    if any(v <= 0 for v in values):
        return ()
    whole = tuple(round(v ** (1 / power)) for v in values)
    return whole if all(n > 0 and abs(n**power - v) <= 1e-9 * v for n, v in zip(whole, values, strict=True)) else ()


def _as_one(text: str) -> str:
    """Return an expression as an operand of a power."""
    return text if " " not in text or text.startswith("(") else f"({text})"


def _dimensions(tensors: Sequence[TensorSpec]) -> Iterator[tuple[str, int]]:
    for tensor in tensors:
        yield from ((f"{tensor.name}.shape[{i}]", size) for i, size in enumerate(tensor.shape))


def _common(found: Sequence[Mapping[str, int | float]]) -> dict[str, _Numbers]:
    """Return each name's numbers at every workload, of names that all have; True and False are no sizes."""
    names = [n for n in found[0] if all(n in f and not isinstance(f[n], bool) for f in found)]
    return {name: tuple(f[name] for f in found) for name in names}


def _text(values: _Numbers) -> str:
    return repr(values[0])


def _node(nodes: Sequence[Node], names: _PlanNames) -> Node:
    first = nodes[0]
    shape = tuple(size for size in _operands([n.shape for n in nodes], names) if isinstance(size, int))
    if first.op == "input":
        return replace(first, shape=shape)
    args = _operands(_completed(nodes), names)
    kwargs = {key: _operand([n.kwargs[key] for n in nodes], names) for key in first.kwargs}
    return replace(first, args=args, kwargs=kwargs, shape=shape)


def _completed(nodes: Sequence[Node]) -> list[tuple[Operand, ...]]:
    """Return the operands at every workload; a trace leaves out the last ones where they are the defaults."""
    longest = max((n.args for n in nodes), key=len)
    defaults = next((found for prefix, found in _DEFAULTS if ops.name(nodes[0]).startswith(prefix)), ())
    return [(*n.args, *(_like(longest[k], d) for k, d in enumerate(defaults[: len(longest)]) if k >= len(n.args)))
            for n in nodes]  # fmt: skip


def _like(given: Operand, default: Operand) -> Operand:
    return (default,) * len(given) if isinstance(given, tuple) else default


def _operands(each: Sequence[tuple[Operand, ...]], names: _PlanNames) -> tuple[Operand, ...]:
    if len({len(operands) for operands in each}) > 1:
        raise NotInPlaybook("an operand whose length changes with the sizes of the workload is not in the playbook")
    return tuple(_operand(column, names) for column in zip(*each, strict=True))


def _numbers(operands: Sequence[Operand]) -> tuple[float, ...]:
    return tuple(one for one in operands if isinstance(one, int | float))


def _operand(column: Sequence[Operand], names: _PlanNames) -> Operand:
    first = column[0]
    if isinstance(first, tuple):
        return _operands([c for c in column if isinstance(c, tuple)], names)
    numbers = tuple(c for c in column if isinstance(c, int | float) and not isinstance(c, bool))
    return names.number(numbers) if len(numbers) == len(column) else first
