"""Open the graph that a run's settings name."""

from __future__ import annotations

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import GraphSettings
from cutegen_core.workloads.gnn.data.generate import generate_blocks, generate_power_law
from cutegen_core.workloads.gnn.graph import GraphData

GENERATORS = {"blocks": generate_blocks, "power-law": generate_power_law}


def open_graph(settings: GraphSettings) -> GraphData:
    """Return the graph, generated or read.

    Raises:
        UsageError: it cannot be generated or read; the text names the file and the place.
    """
    if settings.source in GENERATORS:
        return GENERATORS[settings.source](
            settings.nodes, settings.degree, settings.classes, settings.width, settings.seed
        )
    raise UsageError(f"there is no graph {settings.source}.")
