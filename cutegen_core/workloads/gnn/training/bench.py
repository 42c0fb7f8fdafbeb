"""Measure epochs with several aggregates in one run.

1. Every round trains one epoch with each aggregate, in turns forwards and backwards, and one with the run's own
   aggregate in the other mode. Round 0 is a warm-up of a few batches that is not reported.
2. The compute-only epoch trains on batches that lie ready on the device: what remains without sampling and transfer.
3. The aggregate's share of it is what its calls, recorded from these steps, take alone: forward, and backward where the
   model needs it. It bounds what a faster kernel can give (Amdahl).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cutegen_core.records.gnn import (
    TORCH_AGGREGATES,
    AggregateTimes,
    EpochReport,
    Mode,
    ModelName,
    Precision,
    RunProgress,
    RunResult,
)
from cutegen_core.workloads.gnn.aggregate import Aggregate, ChosenAggregate, choose_aggregate
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.training.devices import Inputs, Sleeper, Ticket
from cutegen_core.workloads.gnn.training.epoch import EpochOfTraining, Trainee
from cutegen_core.workloads.gnn.training.run import Run, SamplingOf
from cutegen_core.workloads.gnn.training.schedule import derive_seed, shuffled_batches
from cutegen_core.workloads.gnn.training.train import check_trainable, make_optimizer

_READY = 4
"""Batches that lie ready for the compute-only epoch, and are run in turns."""
_WARMUP = 3


@dataclass
class Contestant:
    """An aggregate with a model of its own; all begin with the same weights."""

    aggregate: ChosenAggregate
    mode: Mode
    trainee: Trainee


class Recorded(NamedTuple):
    """A call of the aggregate during a step."""

    table: Tensor
    idx: Tensor
    indptr: Tensor
    needs_gradient: bool


def bench(run: Run) -> RunResult:
    """Measure all aggregates; the run's own one comes first."""
    check_trainable(run)
    contestants = _contestants(run)
    for contestant in contestants:
        _train(run, contestant, 0)
    reports = []
    for number in range(1, run.settings.epochs + 1):
        for contestant in contestants if number % 2 else reversed(contestants):
            reports.append(_train(run, contestant, number))
            run.reporter.epoch(reports[-1])
    times = tuple(_times(run, one, reports) for one in contestants if one.mode is run.settings.mode)
    return RunResult(
        run.settings, run.graph.facts(), run.describe_machine(), tuple(reports), compute_only_s=times[0].compute_only_s,
        aggregate_share=times[0].share, kernel_note=run.aggregate.note, aggregates=times,
    )  # fmt: skip


def _contestants(run: Run) -> list[Contestant]:
    others = [name for name in TORCH_AGGREGATES if name != run.aggregate.name]
    if run.settings.model is ModelName.GAT or not run.computes:  # neither calls an aggregate
        others = []
    chosen = [run.aggregate, *map(choose_aggregate, others)]
    entries = [(one, run.settings.mode) for one in chosen]
    entries += [(run.aggregate, mode) for mode in Mode if mode is not run.settings.mode]
    return [Contestant(aggregate, mode, _trainee(run, aggregate)) for aggregate, mode in entries]


def _trainee(run: Run, aggregate: ChosenAggregate) -> Trainee:
    model = run.make_model(1)
    model.aggregate = aggregate.run
    return Trainee(1, model, make_optimizer(run, model))


def _train(run: Run, contestant: Contestant, number: int) -> EpochReport:
    """Train one epoch, or the first batches of it as a warm-up (number 0)."""
    settings, trainee = run.settings, contestant.trainee
    batches = shuffled_batches(run.graph.splits.train, settings, 1, max(number, 1))[: None if number else _WARMUP]
    epoch = EpochOfTraining(run, trainee, batches)
    phase = f"{contestant.aggregate.name}, {contestant.mode}" if number else "warming up"

    def after(batch: int) -> None:
        epoch.after(batch)
        run.reporter.progress(RunProgress(phase, 1, number, settings.epochs, batch + 1, len(batches)))

    trainee.model.train()
    sampling = SamplingOf(settings.fanouts, derive_seed(settings.seed, 1, number))
    went = run.pass_over(epoch.parts, sampling, epoch.step, after, mode=contestant.mode)
    return EpochReport(
        1, number, went.seconds, went.batches, run.add_up(went.edges), epoch.loss, None, went.times, went.timeline,
        contestant.aggregate.name, contestant.mode,
    )  # fmt: skip


def _times(run: Run, contestant: Contestant, reports: Sequence[EpochReport]) -> AggregateTimes:
    own = [one for one in reports if (one.aggregate, one.mode) == (contestant.aggregate.name, contestant.mode)]
    seconds = statistics.median(one.seconds for one in own)
    if isinstance(run.device, Sleeper):
        return AggregateTimes(contestant.aggregate.name, seconds, own[0].batches * run.device.seconds, None)
    run.reporter.progress(RunProgress(f"{contestant.aggregate.name}, compute only"), at_once=True)
    batches = shuffled_batches(run.graph.splits.train, run.settings, 1, 1)
    epoch = EpochOfTraining(run, contestant.trainee, batches)
    ready = _lie_ready(run, epoch.parts[:_READY])
    turns = [ready[number % len(ready)] for number in range(len(batches))]
    compute_only = _seconds(run, lambda: _run_all(run, turns, epoch))
    calls = _record(contestant.trainee, lambda: _run_all(run, ready, epoch))
    alone = _seconds(run, lambda: _replay(run, calls, contestant.aggregate.run))
    share = alone / len(ready) / (compute_only / len(batches)) if calls else None
    return AggregateTimes(contestant.aggregate.name, seconds, compute_only, share)


def _lie_ready(run: Run, parts: Sequence[Ids]) -> list[Ticket]:
    """Return batches on the device whose slots have been given back."""
    tickets = []
    with run.loader(parts, SamplingOf(run.settings.fanouts, run.settings.seed)) as loader:
        for batch in loader:
            ticket = _kept(run.device.send(batch))
            run.device.finish()
            run.device.settle(ticket)
            tickets.append(ticket)
    return tickets


def _kept(ticket: Ticket) -> Ticket:
    inputs = ticket.inputs
    hops = tuple(hop._replace(idx=hop.idx.clone(), indptr=hop.indptr.clone()) for hop in inputs.hops)
    kept = Inputs(inputs.number, inputs.features.clone(), inputs.labels.clone(), hops)
    return replace(ticket, inputs=kept, nodes=None if ticket.nodes is None else ticket.nodes.clone())


def _run_all(run: Run, tickets: Sequence[Ticket], epoch: EpochOfTraining) -> None:
    for ticket in tickets:
        run.stop.check()
        run.device.run(ticket, epoch.step)


def _record(trainee: Trainee, work: Callable[[], None]) -> list[Recorded]:
    """Return the aggregate's calls while the work runs."""
    calls: list[Recorded] = []
    original = trainee.model.aggregate

    def recording(table: Tensor, idx: Tensor, indptr: Tensor) -> Tensor:
        calls.append(Recorded(table.detach(), idx, indptr, table.requires_grad))
        return original(table, idx, indptr)

    trainee.model.aggregate = recording
    try:
        work()
    finally:
        trainee.model.aggregate = original
    return calls


def _replay(run: Run, calls: Sequence[Recorded], aggregate: Aggregate) -> None:
    half = run.settings.precision is Precision.BF16
    for call in calls:
        table = call.table.detach().requires_grad_(call.needs_gradient)
        with torch.autocast(run.device.where.type, torch.bfloat16, enabled=half):
            means = aggregate(table, call.idx, call.indptr)
        if call.needs_gradient:
            means.backward(torch.ones_like(means))  # type: ignore[no-untyped-call]


def _seconds(run: Run, work: Callable[[], None]) -> float:
    run.device.finish()
    began = time.perf_counter()
    work()
    run.device.finish()
    return time.perf_counter() - began
