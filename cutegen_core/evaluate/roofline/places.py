"""Find out of a graph's indices how many of them must differ, from what is known of its inputs of whole numbers."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.evaluate.roofline.operands import by_name, number, tensor
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, InputFacts, Node

_UNKNOWN = InputFacts()


class Places:
    """What is known of the values of index tensors."""

    def __init__(self, graph: Graph, facts: Mapping[str, InputFacts]) -> None:
        self._nodes, self._facts = by_name(graph), facts

    def distinct(self, name: str) -> int:
        """Return at least how many of an index tensor's numbers differ, 0 where nothing is known.

        The number of each entry's row, from a row pointer, has one value for each row that is not empty; and these are
        the places where the pointer steps.
        """
        node = self._nodes[name]
        if node.op == "input":
            return self._facts.get(name, _UNKNOWN).distinct
        pointer = self._stepped(node) if ops.name(node) == "repeat_interleave" else ""
        return max(0, self._facts.get(pointer, _UNKNOWN).distinct - 1)

    def ends(self, name: str) -> tuple[int, int]:
        """Return the first and the last number of an input, -1 where they vary or are not known."""
        fact = self._facts.get(name, _UNKNOWN)
        return fact.first, fact.last

    def _stepped(self, node: Node) -> str:
        """Return p of repeat_interleave(arange(n), p[1:] - p[:-1]), which counts rows; "" for any other."""
        rows, counts = self._nodes.get(tensor(node, 0)), self._nodes.get(tensor(node, 1))
        if rows is None or counts is None or ops.name(rows) != "arange" or ops.name(counts) != "sub":
            return ""
        upper, lower = self._nodes.get(tensor(counts, 0)), self._nodes.get(tensor(counts, 1))
        if upper is None or lower is None or ops.name(upper) != "slice" or ops.name(lower) != "slice":
            return ""
        pointer = tensor(upper, 0)
        shifted = number(upper, 2, "start", 0) == 1 and number(lower, 2, "start", 0) == 0
        return pointer if pointer == tensor(lower, 0) and shifted and upper.shape == lower.shape else ""
