"""Infer classes: from sampled neighbourhoods through the pipeline, or layer by layer from all neighbours."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cutegen_core.records.gnn import ComputeType, RunProgress
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.training.flights import Inputs
from cutegen_core.workloads.gnn.training.pipeline import PassTimes
from cutegen_core.workloads.gnn.training.run import GnnRun, SamplingOf
from cutegen_core.workloads.gnn.training.schedule import derive_seed, split_batches

_CHUNK_EDGES = 4 << 20
"""Edges of one piece of a layer in layer-wise inference."""
_TABLES = 3
"""Tables of all nodes that layer-wise inference keeps: a layer's input, its pieces, and these as one."""


class Accuracy(NamedTuple):
    """The share of nodes whose class was found, of those that have one."""

    share: float
    seconds: float
    went: PassTimes | None = None


@torch.inference_mode()
def infer_sampled(run: GnnRun, model: SampledModel, nodes: Ids) -> Accuracy:
    """Infer nodes from `inference_fanouts` neighbours, each rank its share of them."""
    began = time.perf_counter()
    mine = split_batches(nodes[run.ranks.rank :: run.ranks.world], max(1, run.settings.batch_size // run.ranks.world))
    counts = torch.zeros(2, device=run.device.where, dtype=torch.int64)

    def step(inputs: Inputs) -> None:
        counts.add_(count_right(run.forward(model, inputs), inputs.labels))

    def after(batch: int) -> None:
        run.stop.check()
        run.reporter.progress(RunProgress("inferring from sampled neighbours", done=batch + 1, total=len(mine)))

    model.eval()
    sampling = SamplingOf(run.settings.inference_fanouts, derive_seed(run.settings.seed, 0))
    went = run.pass_over(mine, sampling, step, after)
    right, known = run.ranks.add(counts).tolist()
    return Accuracy(right / max(known, 1), time.perf_counter() - began, went)


def lacking_memory(run: GnnRun) -> str:
    """Return why inference over all neighbours cannot run on this device; "" where it can."""
    widest = max(run.graph.width, run.settings.hidden)
    needed = run.graph.nodes * widest * torch.float32.itemsize * _TABLES
    free = run.device.free_bytes()
    if needed <= free:
        return ""
    return (
        f"layer-wise inference was left out: it keeps {_TABLES} tables of {run.graph.nodes:,} nodes x {widest} float32 "
        f"on the device, {needed / 2**30:.1f} GiB; {free / 2**30:.1f} GiB are free."
    )


@torch.inference_mode()
def infer_full(run: GnnRun, model: SampledModel, nodes: Ids) -> Accuracy:
    """Infer nodes from all their neighbours: each layer for all nodes of the graph, then the next."""
    began = time.perf_counter()
    graph, where = run.graph, run.device.where
    model.eval()
    state = torch.from_numpy(graph.features)
    for number in range(model.depth):
        state = state.to(where)
        rows = []
        for start, end in _pieces(graph.indptr):
            run.stop.check()
            run.reporter.progress(
                RunProgress(f"inferring layer {number + 1} of all nodes", done=end, total=graph.nodes)
            )
            rows.append(_layer(run, model, number, state, (start, end)))
        state = torch.cat(rows)
    right, known = count_right(
        state[torch.from_numpy(nodes).to(where)], torch.from_numpy(graph.labels[nodes]).to(where)
    ).tolist()
    return Accuracy(right / max(known, 1), time.perf_counter() - began)


def _layer(run: GnnRun, model: SampledModel, number: int, state: Tensor, piece: tuple[int, int]) -> Tensor:
    """Return a layer's output for the nodes of a piece."""
    (start, end), graph = piece, run.graph
    low, high = int(graph.indptr[start]), int(graph.indptr[end])
    half = run.settings.precision is ComputeType.BF16
    idx = torch.from_numpy(graph.indices[low:high].astype(np.int64)).to(state.device)
    indptr = torch.from_numpy(graph.indptr[start : end + 1] - low).to(state.device)
    table = state.to(torch.bfloat16 if half else torch.float32)
    with torch.autocast(state.device.type, torch.bfloat16, enabled=half):
        return model.layer(number, table, table[start:end], idx, indptr)


def _pieces(indptr: Ids) -> list[tuple[int, int]]:
    """Cut the rows into pieces of about so many edges, one row at least."""
    cuts = np.searchsorted(indptr, np.arange(_CHUNK_EDGES, int(indptr[-1]), _CHUNK_EDGES))
    ends = np.unique(np.concatenate([[0], cuts, [len(indptr) - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(ends)]


def count_right(logits: Tensor, labels: Tensor) -> Tensor:
    """Return how many classes were found, and how many are known."""
    known = labels >= 0
    return torch.stack([((logits.argmax(1) == labels) & known).sum(), known.sum()])
