"""Find the operations whose results count, and those that write to an operand where nobody would see it.

`x.add_(1)` is `x + 1` if nothing that counts reads `x` by another name afterwards: the trace lets what follows refer to
the result, but a view of `x` that was taken before keeps its old node. A norm in training writes its running
statistics, which nothing that counts may read afterwards. A write to a part of `x` (`x[:, 0] = 1`) becomes a new
tensor, which has the rest of `x`, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node, Operand, Ref

_PUT_BACK = {"select": "aten.select_scatter", "slice": "aten.slice_scatter"}
"""What puts a part of a tensor, taken so, into the whole."""
_STATISTICS, _TRAINING = {"batch_norm": (3, 4), "instance_norm": (3, 4)}, 5
"""Norms -> positions of their running statistics, which they write in training, and do not read; that of the flag."""


def with_whole_writes(graph: Graph) -> Graph:
    """Return the graph with each write to a part of a tensor as a new tensor, which all that follows reads instead.

    It stays as it is where something needed reads another view afterwards, taken before.
    """
    written = _WholeWrites(graph)
    for at, node in enumerate(graph.nodes):
        written.add(at, node)
    return replace(graph, nodes=tuple(written.nodes), outputs=tuple(map(written.newest, graph.outputs)))


class _WholeWrites:
    """Copies a graph's nodes; `newest` says by which name a tensor is read from then on."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Node] = []
        self._graph, self._counted = graph, needed(graph) | {n.name for n in graph.nodes if ops.writes_operand(n)}
        self._known: dict[str, Node] = {}
        self._newest: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def newest(self, name: str) -> str:
        return self._newest.get(name, name)

    def add(self, at: int, node: Node) -> None:
        """Add the next node, and behind a write to a part of a tensor the whole of it."""
        parts = list(self._parts(node))
        whole = parts and not self._is_stale(at, [part.name for part in parts], node)
        node = node.reading(self.newest)
        self._append(replace(node, op=node.op.removesuffix("_")) if whole else node)
        if whole:
            self._put_back(node.name, parts)

    def _put_back(self, written: str, parts: list[Node]) -> None:
        for part in parts:
            source = self._known[part.name].argument(0)
            assert isinstance(source, Ref)
            of = self._known[source.node]
            args = (source, Ref(written), *part.args[1:])
            op = _PUT_BACK[ops.name(part)]
            whole = Node(f"{written}_in_{of.name}", op, args, part.kwargs, of.shape, of.dtype)
            self._append(whole)
            first = self._first.setdefault(whole.name, self._first.get(of.name, of.name))
            self._newest[first] = written = whole.name

    def _parts(self, node: Node) -> Iterator[Node]:
        """Yield the parts of parts of a tensor that a node writes to, the smallest first."""
        if not ops.writes_operand(node):
            return
        written = node.argument(0)
        while isinstance(written, Ref) and ops.name(self._graph.node(written.node)) in _PUT_BACK:
            part = self._graph.node(written.node)
            yield part
            written = part.argument(0)

    def _is_stale(self, at: int, parts: list[str], node: Node) -> bool:
        """Return whether something reads the memory afterwards by a name that nothing brings up to date."""
        base = next(self._graph.node(parts[-1]).operands())
        others = set(_names_of(self._graph, at, parts[-1])) - {base, *parts}
        later = (n for n in self._graph.nodes[at + 1 :] if n.name in self._counted)
        return any(others.intersection(n.operands()) for n in later) or bool(others.intersection(self._graph.outputs))

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self._known[node.name] = node


def needed(graph: Graph) -> frozenset[str]:
    """Return the names of the nodes that an output is made of."""
    nodes, found = {node.name: node for node in graph.nodes}, set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in found:
            found.update(nodes[node.name].operands())
    return frozenset(found)


def seen_writes(graph: Graph) -> frozenset[str]:
    """Return the nodes that write what something needed reads by another name afterwards."""
    counted = needed(graph)
    return frozenset(node.name for at, node in enumerate(graph.nodes) if _is_seen(graph, at, node, counted))


def described(node: Node) -> str:
    """Say what a node does that is among the seen writes."""
    if _statistics(node):
        return f"'{node.op}' in training whose running statistics are read afterwards"
    return f"'{node.op}' of what is read by another name, too,"


def _is_seen(graph: Graph, at: int, node: Node, counted: frozenset[str]) -> bool:
    before = {name for written in _written(node) for name in _names_of(graph, at, written)}
    if not before:
        return False
    later = (n for n in graph.nodes[at + 1 :] if n.name in counted)
    return any(before.intersection(_read(n)) for n in later) or bool(before.intersection(graph.outputs))


def _written(node: Node) -> Sequence[str]:
    """Return the operands that a node writes to."""
    found = [node.argument(0)] if ops.writes_operand(node) else _statistics(node)
    return [one.node for one in found if isinstance(one, Ref)]


def _read(node: Node) -> Iterator[str]:
    """Yield the operands that a node reads."""
    unread = _statistics(node)
    if unread:
        node = replace(node, args=tuple(None if one in unread else one for one in node.args))
    yield from node.operands()


def _statistics(node: Node) -> Sequence[Operand]:
    """Return the running statistics of a norm in training."""
    positions = _STATISTICS.get(ops.name(node), ()) if node.argument(_TRAINING) else ()
    return [node.argument(position) for position in positions]


def _names_of(graph: Graph, at: int, tensor: str) -> Iterator[str]:
    """Yield the names under which the memory of a tensor was known before a node."""
    nodes = {node.name: node for node in graph.nodes[:at]}
    base = {name: _base(nodes, name) for name in nodes}
    yield from (name for name in nodes if base[name] == base.get(tensor))


def _base(nodes: dict[str, Node], name: str) -> str:
    node = nodes[name]
    while _is_same_memory(node):
        source = next(iter(node.operands()), "")
        if source not in nodes:
            break
        node = nodes[source]
    return node.name


def _is_same_memory(node: Node) -> bool:
    known = ops.traits(node)
    return node.op != "input" and (known.free or known.flow in ops.VIEWS or ops.writes_operand(node))
