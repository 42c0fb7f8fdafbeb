"""Records of the reference's traced graph in ATen operations; reading them needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Ref:
    """Operand that is the value of another node."""

    node: str


Operand = Ref | bool | int | float | str | None | tuple["Operand", ...]


@dataclass(frozen=True)
class Node:
    """One ATen operation.

    Attributes:
        op: "aten.relu", "aten.mm", ... without overload; "input" for a tensor of the signature.
        args: positional operands as traced; `Ref` for tensors.
        shape, dtype: of the (first) result.
        line: the line of the reference's file that it comes from; 0 if that is not known.
    """

    name: str
    op: str
    args: tuple[Operand, ...]
    kwargs: Mapping[str, Operand]
    shape: tuple[int, ...]
    dtype: str
    line: int = field(default=0, compare=False)

    def argument(self, position: int, keyword: str = "") -> Operand:
        """Return the operand at a position or under a keyword, None if it was left out."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(keyword)

    def operands(self) -> Iterator[str]:
        """Yield the names of the nodes whose values this one reads, in order, repeated as often as they occur."""
        for operand in (*self.args, *self.kwargs.values()):
            yield from _names_in(operand)

    def reading(self, name_of: Callable[[str], str]) -> Node:
        """Return it with other nodes in place of those that it reads."""
        kwargs = {key: _read_by(value, name_of) for key, value in self.kwargs.items()}
        return replace(self, args=tuple(_read_by(value, name_of) for value in self.args), kwargs=kwargs)


def _read_by(operand: Operand, name_of: Callable[[str], str]) -> Operand:
    if isinstance(operand, tuple):
        return tuple(_read_by(part, name_of) for part in operand)
    return Ref(name_of(operand.node)) if isinstance(operand, Ref) else operand


def _names_in(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Ref):
        yield operand.node
    elif isinstance(operand, tuple):
        for part in operand:
            yield from _names_in(part)


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order; an "input" node has the name of its tensor in the signature.

    Attributes:
        outputs: node names, in the order of the signature's outputs.
        reason: why the trace failed ("data-dependent control flow at line 12"), empty when it succeeded.
        constants: node name -> the numbers of a constant tensor that has few, the last dimension fastest.
    """

    nodes: tuple[Node, ...] = ()
    outputs: tuple[str, ...] = ()
    reason: str = ""
    constants: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        """Return the node with that name.

        Raises:
            KeyError: the graph has no such node.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True)
class InputFacts:
    """Properties that the values of one input have under every tested seed.

    Attributes:
        nonzero: where the last two dimensions may differ from zero: "upper", "lower", "diagonal" or "" (anywhere).
        symmetric: equal to its transpose in the last two dimensions.
        sparse: holds more exact zeros than chance gives, so that a kernel may skip their products.
        matters: the outputs change when this input changes.
        distinct: least number of different values in one workload, of an input of whole numbers; 0 where not known.
        first, last: the first and the last element of an input of whole numbers; -1 where they differ between seeds, or
            are not known.
    """

    nonzero: str = ""
    symmetric: bool = False
    sparse: bool = False
    matters: bool = True
    distinct: int = 0
    first: int = -1
    last: int = -1
