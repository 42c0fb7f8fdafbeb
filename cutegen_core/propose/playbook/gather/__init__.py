"""Kernels that gather rows by index and add them up by segment, recognised as whole graphs.

`levels_of` tries each; a file that is none of them goes on to the general playbook.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen_core.propose.playbook.gather import attention, layer, rows, scatter, segments
from cutegen_core.propose.playbook.serving.writing import ServingLevel
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature

_RECOGNISERS = (rows.find, segments.find, scatter.find, layer.find, attention.find)


def levels_of(graph: Graph, signature: Signature) -> Sequence[ServingLevel]:
    """Return the menu for a graph that is one of these, else nothing."""
    return next((levels for find in _RECOGNISERS if (levels := find(graph, signature))), ())
