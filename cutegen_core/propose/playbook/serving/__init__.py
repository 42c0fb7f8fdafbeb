"""Kernels of serving engines that are no chain of elementwise operations and reductions, recognised as whole graphs.

`recognise` tries each; a file that is none of them goes on to the general playbook.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.serving import gating, quantisation, rotary
from cutegen_core.propose.playbook.serving.writing import ServingLevel, ServingVariant, write
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature

__all__ = ["ServingVariant", "levels_of", "recognise"]

_RECOGNISERS = (rotary.find, quantisation.find, gating.find)


def recognise(graph: Graph, signature: Signature, name: str) -> tuple[ServingVariant, ...]:
    """Return the kernels for a graph that is one of these, simplest first; none for any other."""
    return tuple(write(level, name) for level in levels_of(graph, signature))


def levels_of(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu for a graph that is one of these, else nothing."""
    return next((levels for find in _RECOGNISERS if (levels := find(graph, signature))), ())
