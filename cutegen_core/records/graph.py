"""The reference's traced graph in ATen operations, as plain records that need no torch to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ref:
    """An operand that is another node's value."""

    node: str


Operand = Ref | bool | int | float | str | None | tuple["Operand", ...]


@dataclass(frozen=True)
class Node:
    """One ATen operation.

    Attributes:
        op: "aten.relu", "aten.mm", ... without overload; "input" for a tensor of the signature.
        args: positional operands as traced; `Ref` for tensors.
        shape, dtype: of the (first) result.
    """

    name: str
    op: str
    args: tuple[Operand, ...]
    kwargs: Mapping[str, Operand]
    shape: tuple[int, ...]
    dtype: str

    def argument(self, position: int, keyword: str = "") -> Operand:
        """The operand at a position or under a keyword, None when it was left out."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(keyword)

    def operands(self) -> Iterator[str]:
        """Names of the nodes whose values it reads, in order, each as often as it is written."""
        for operand in (*self.args, *self.kwargs.values()):
            yield from _read(operand)


def _read(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Ref):
        yield operand.node
    elif isinstance(operand, tuple):
        for part in operand:
            yield from _read(part)


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order; "input" nodes carry the signature's tensor name as their own name.

    Attributes:
        outputs: node names, in the order of the signature's outputs.
        reason: why there are no nodes ("data-dependent control flow at line 12"), empty when the trace succeeded.
    """

    nodes: tuple[Node, ...] = ()
    outputs: tuple[str, ...] = ()
    reason: str = ""
    constants: Mapping[str, float] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        """The node of that name; KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True)
class InputFacts:
    """What the values of one input always look like, found by looking at them under several seeds.

    Attributes:
        nonzero: where its last two dimensions may differ from zero: "upper", "lower", "diagonal" or "" (anywhere).
        symmetric: equal to its transpose in the last two dimensions.
        sparse: exact zeros are more than chance among its values: what they are multiplied with may be skipped.
        matters: the outputs change when it does.
    """

    nonzero: str = ""
    symmetric: bool = False
    sparse: bool = False
    matters: bool = True
