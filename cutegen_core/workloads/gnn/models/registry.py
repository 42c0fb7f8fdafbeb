"""Make a model by its name."""

from __future__ import annotations

from collections.abc import Callable

from cutegen_core.records.gnn import ModelName
from cutegen_core.workloads.gnn.aggregate import Aggregate
from cutegen_core.workloads.gnn.models.gat import Gat
from cutegen_core.workloads.gnn.models.gin import Gin
from cutegen_core.workloads.gnn.models.sage import Sage
from cutegen_core.workloads.gnn.models.sage_residual import SageResidual
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths

MODELS: dict[ModelName, Callable[[Widths, int, Aggregate, float], SampledModel]] = {
    ModelName.SAGE: Sage,
    ModelName.GAT: Gat,
    ModelName.GIN: Gin,
    ModelName.SAGE_RESIDUAL: SageResidual,
}


def make_model(name: ModelName, widths: Widths, depth: int, aggregate: Aggregate, dropout: float) -> SampledModel:
    """Return a model with fresh weights from torch's present seed."""
    return MODELS[name](widths, depth, aggregate, dropout)
