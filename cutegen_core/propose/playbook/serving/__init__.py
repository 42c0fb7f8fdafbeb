"""Kernels of serving engines that are no chain of elementwise operations and reductions, recognised as whole graphs.

`levels_of` tries each; a file that is none of them goes on to the general playbook.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.serving import gating, quantisation, rotary
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature

_RECOGNISERS = (rotary.find, quantisation.find, gating.find)


def levels_of(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu for a graph that is one of these, else nothing."""
    return next((levels for find in _RECOGNISERS if (levels := find(graph, signature))), ())
