"""Compare ways to infer the test nodes with a trained model: sampled, from all neighbours, and from features only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import EpochReport, RunProgress, RunResult
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.models.sampled import HopTensors, SampledModel
from cutegen_core.workloads.gnn.training.checkpoint import check_same_model, checkpoint_path, read_checkpoint
from cutegen_core.workloads.gnn.training.flights import Inputs
from cutegen_core.workloads.gnn.training.inference import (
    Accuracy,
    count_right,
    infer_full,
    infer_sampled,
    lacking_memory,
)
from cutegen_core.workloads.gnn.training.run import GnnRun
from cutegen_core.workloads.gnn.training.schedule import (
    learning_rate,
    seed_step,
    shuffled_batches,
    split_batches,
    step_seeds,
)
from cutegen_core.workloads.gnn.training.step import make_optimizer, set_learning_rate
from cutegen_core.workloads.gnn.training.train import check_trainable, test_nodes


def infer(run: GnnRun) -> RunResult:
    """Infer the test nodes with the first trial's checkpoint.

    Raises:
        UsageError: the folder has no checkpoint, or it is another model's.
    """
    check_trainable(run)
    nodes = test_nodes(run)
    model = _trained_model(run)
    sampled = infer_sampled(run, model, nodes)
    assert sampled.went is not None
    went = sampled.went
    report = EpochReport(
        1, 1, went.seconds, went.batches, run.add_up(went.edges), math.nan, sampled.share, went.times, went.timeline
    )
    run.reporter.epoch(report)
    full, alone = _first_rank_only(run, model, nodes)
    result = RunResult(
        run.settings, run.graph.facts(), run.describe_machine(), (report,), (sampled.share,), sampled.share,
        sampled.seconds, features_only_accuracy=alone, kernel_note=run.aggregate.note, notes=tuple(run.notes),
    )  # fmt: skip
    return replace(result, full_accuracy=full.share, full_seconds=full.seconds) if full else result


def train_features_only(run: GnnRun) -> float:
    """Train the same architecture with no neighbours at all; return its accuracy on the test nodes."""
    model = run.make_model(1)
    optimizer = make_optimizer(run, model)
    for epoch in range(1, run.settings.epochs + 1):
        set_learning_rate(optimizer, learning_rate(run.settings, epoch))
        model.train()
        batches = shuffled_batches(run.graph.splits.train, run.settings, 1, epoch)
        for nodes, seed in zip(batches, step_seeds(run.settings, 1, epoch, 0, len(batches)), strict=True):
            run.stop.check()
            seed_step(run.device.where, seed)
            inputs = _alone(run, model, nodes)
            F.cross_entropy(run.forward(model, inputs), inputs.labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        run.reporter.progress(RunProgress("training on features only", epoch=epoch, epochs=run.settings.epochs))
    return _test_alone(run, model)


@torch.inference_mode()
def _test_alone(run: GnnRun, model: SampledModel) -> float:
    model.eval()
    counts = torch.zeros(2, device=run.device.where, dtype=torch.int64)
    for nodes in split_batches(test_nodes(run), run.settings.batch_size):
        inputs = _alone(run, model, nodes)
        counts += count_right(run.forward(model, inputs), inputs.labels)
    right, known = counts.tolist()
    return float(right / max(known, 1))


def _alone(run: GnnRun, model: SampledModel, nodes: Ids) -> Inputs:
    """Return a batch of seeds whose rows of neighbours are all empty."""
    where, count = run.device.where, len(nodes)
    order = np.sort(nodes)  # a mapped table is read in order
    idx, indptr = (torch.zeros(size, dtype=torch.int64, device=where) for size in (0, count + 1))
    empty = HopTensors(idx, indptr, count, count)
    features = torch.from_numpy(run.graph.features[order]).to(where)
    return Inputs(0, features, None, torch.from_numpy(run.graph.labels[order]).to(where), (empty,) * model.depth)


def _first_rank_only(run: GnnRun, model: SampledModel, nodes: Ids) -> tuple[Accuracy | None, float | None]:
    """Return what one rank computes for all; the others compute nothing and are not asked."""
    if not run.ranks.first:
        return None, None
    note = lacking_memory(run)
    if note:
        run.notes.append(note)
    return None if note else infer_full(run, model, nodes), train_features_only(run)


def _trained_model(run: GnnRun) -> SampledModel:
    found = read_checkpoint(run.settings.checkpoint, 1)
    if found is None:
        raise UsageError(
            f"there is no checkpoint {checkpoint_path(run.settings.checkpoint, 1)}. Train with this folder first."
        )
    check_same_model(found, run.settings)
    model = run.make_model(1)
    model.load_state_dict(found.model)
    return model
