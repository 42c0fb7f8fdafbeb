"""Train: trials, epochs, checkpoints.

1. A trial begins with fresh weights, or where its checkpoint ends, which may be in the middle of an epoch.
2. Each epoch trains on all training nodes, then infers the validation nodes; the checkpoint is written before the
   epoch is reported.
3. A trial ends with the sampled accuracy of the test nodes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

from cutegen_core.records.errors import StoppedError, UsageError
from cutegen_core.records.gnn import EpochReport, RunResult
from cutegen_core.workloads.gnn.graph import UNKNOWN, Ids
from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.training.checkpoint import (
    Checkpoint,
    check_same_curve,
    hold_folder,
    read_checkpoint,
    write_checkpoint,
)
from cutegen_core.workloads.gnn.training.epoch import EpochOfTraining, Trainee, make_trainee
from cutegen_core.workloads.gnn.training.fixing import fix_sizes, say_steps
from cutegen_core.workloads.gnn.training.inference import infer_sampled
from cutegen_core.workloads.gnn.training.run import Estimate, GnnRun, SamplingOf
from cutegen_core.workloads.gnn.training.schedule import derive_seed, learning_rate, shuffled_batches
from cutegen_core.workloads.gnn.training.step import load_optimizer, set_learning_rate


def train(run: GnnRun) -> RunResult:
    """Run all trials."""
    check_trainable(run)
    writes = run.settings.checkpoint and run.ranks.first
    with hold_folder(run.settings.checkpoint) if writes else contextlib.nullcontext():
        return _train_all(run)


def _train_all(run: GnnRun) -> RunResult:
    fix_sizes(run)
    trainees = [_start(run, trial) for trial in range(1, run.settings.trials + 1)]
    estimate = Estimate(run, sum(run.settings.epochs - one.epoch for one in trainees))
    tested = []
    for trainee in trainees:
        for report in train_trial(run, trainee, estimate):
            run.reporter.epoch(report)
        if run.computes:
            tested.append(infer_sampled(run, trainee.model, test_nodes(run)))
    reports = tuple(report for one in trainees for report in one.reports)
    machine = run.describe_machine() | {"steps": say_steps(reports, {"": trainees[-1].step.refusal})}
    result = RunResult(run.settings, run.graph.facts(), machine, reports, kernel_note=run.aggregate.note)
    if not tested:
        return result
    return replace(
        result, accuracies=tuple(one.share for one in tested), sampled_accuracy=tested[-1].share,
        sampled_seconds=tested[-1].seconds,
    )  # fmt: skip


def check_trainable(run: GnnRun) -> None:
    """Refuse a graph that has nothing to learn from.

    Raises:
        UsageError: there are no training nodes, or some have no label.
    """
    graph = run.graph
    if not len(graph.splits.train):
        raise UsageError(f"graph {graph.name} has no training nodes: its split `train` is empty.")
    unknown = int((graph.labels[graph.splits.train] == UNKNOWN).sum())
    if unknown:
        raise UsageError(
            f"graph {graph.name}: {unknown} of {len(graph.splits.train)} training nodes have no label. Give them "
            "labels, or leave them out of the split `train`."
        )


def test_nodes(run: GnnRun) -> Ids:
    """Return the nodes of the test split.

    Raises:
        UsageError: it is empty.
    """
    nodes = run.graph.splits.test
    if not len(nodes):
        raise UsageError(f"graph {run.graph.name} has no test nodes: its split `test` is empty.")
    return nodes


def train_trial(run: GnnRun, trainee: Trainee, estimate: Estimate) -> Iterator[EpochReport]:
    """Train what is left of a trial; yield each epoch's report once its checkpoint is written.

    Raises:
        StoppedError: the run was asked to end; a checkpoint of the batches done is written.
    """
    while trainee.epoch < run.settings.epochs:
        report = _train_epoch(run, trainee, estimate)
        trainee.epoch, trainee.batch, trainee.loss_sum = trainee.epoch + 1, 0, 0.0
        earlier = (replace(one, timeline=()) for one in trainee.reports)  # a picture of the last epoch is enough
        trainee.reports = (*earlier, report)
        _keep(run, trainee)
        estimate.epoch_ended()
        yield report


def _train_epoch(run: GnnRun, trainee: Trainee, estimate: Estimate) -> EpochReport:
    settings, number = run.settings, trainee.epoch + 1
    set_learning_rate(trainee.optimizer, learning_rate(settings, number))
    batches = shuffled_batches(run.graph.splits.train, settings, trainee.trial, number)
    epoch = EpochOfTraining(run, trainee, batches)

    def after(batch: int) -> None:
        epoch.after(batch)
        estimate.show("training", trainee.trial, number, trainee.batch + batch + 1, len(batches), epoch.loss)

    sampling = SamplingOf(settings.fanouts, derive_seed(settings.seed, trainee.trial, number), run.aggregate.transposed)
    trainee.model.train()
    try:
        went = run.pass_over(epoch.parts, sampling, epoch.step, after, first=trainee.batch, layout=run.layout)
        trainee.batch, trainee.loss_sum = epoch.done, epoch.loss_sum
        valid = _validate(run, trainee.model)
    except StoppedError:
        run.device.finish()
        trainee.batch, trainee.loss_sum = epoch.done, epoch.loss_sum
        _keep(run, trainee)
        raise
    loss = epoch.loss if run.computes else math.nan
    return EpochReport(
        trainee.trial,
        number,
        went.seconds,
        went.batches,
        run.add_up(went.edges),
        loss,
        valid,
        went.times,
        went.timeline,
        captured=epoch.captured,
    )


def _validate(run: GnnRun, model: SampledModel) -> float | None:
    if not (run.computes and len(run.graph.splits.valid)):
        return None
    return infer_sampled(run, model, run.graph.splits.valid).share


def _start(run: GnnRun, trial: int) -> Trainee:
    trainee = make_trainee(run, trial)
    found = read_checkpoint(run.settings.checkpoint, trial) if run.settings.checkpoint else None
    if found is None:
        return trainee
    check_same_curve(found, run.settings)
    trainee.model.load_state_dict(found.model)
    load_optimizer(trainee.optimizer, found.optimizer)
    return replace(trainee, epoch=found.epoch, batch=found.batch, loss_sum=found.loss_sum, reports=found.reports)


def _keep(run: GnnRun, trainee: Trainee) -> None:
    """Write the trial's checkpoint, if the run keeps any."""
    if not (run.settings.checkpoint and run.ranks.first):
        return
    write_checkpoint(
        Checkpoint(
            run.settings, trainee.trial, trainee.epoch, trainee.batch, trainee.loss_sum, trainee.reports,
            trainee.model.state_dict(), trainee.optimizer.state_dict(),
        )
    )  # fmt: skip
