"""Measure epochs with several aggregates in one run.

1. Every round trains one epoch with each aggregate, in turns forwards and backwards; the first one also trains with the
   run's own aggregate in the other mode, which may take ten times as long. Round 0 is a warm-up of a few batches that
   is not reported.
2. After each epoch come steps on batches that lie ready on the device, with another model: what remains without
   sampling and transfer, scaled to an epoch.
3. The aggregate's share of these is what its calls in them, recorded and repeated, take alone: forward, and backward
   where the model needs it. It bounds what a faster kernel can give (Amdahl).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cutegen_core.records.gnn import (
    DETERMINISTIC_AGGREGATES,
    TORCH_AGGREGATES,
    AggregateTimes,
    ComputeType,
    EpochReport,
    Gradient,
    ModelName,
    PipelineMode,
    RunProgress,
    RunResult,
)
from cutegen_core.workloads.gnn.aggregate import Aggregate, ChosenAggregate, TransposedTensors, choose_aggregate
from cutegen_core.workloads.gnn.models.sampled import HopTensors
from cutegen_core.workloads.gnn.training.capture import CaptureError
from cutegen_core.workloads.gnn.training.devices import Sleeper
from cutegen_core.workloads.gnn.training.epoch import EpochOfTraining, Trainee, make_trainee
from cutegen_core.workloads.gnn.training.fixing import fix_sizes, say_steps
from cutegen_core.workloads.gnn.training.flights import InFlight, new_place
from cutegen_core.workloads.gnn.training.run import GnnRun, SamplingOf
from cutegen_core.workloads.gnn.training.schedule import derive_seed, share_of_rank, shuffled_batches
from cutegen_core.workloads.gnn.training.train import check_trainable

_READY = 4
"""Batches that lie ready on the device, and are run in turns."""
_READY_STEPS = 12
_WARMUP = 3
_WARMUP_CAPTURED = 32
"""Where steps are captured: those before a capture, the captures, and page-locked memory for every slot."""


@dataclass
class Contestant:
    """An aggregate with a model of its own; all begin with the same weights.

    Attributes:
        probe: what is trained on batches that lie ready.
        steps_s: of each round, the steps on batches that lie ready.
        alone_s: of each round, the aggregate's calls in them; empty where the model makes none.
    """

    aggregate: ChosenAggregate
    mode: PipelineMode
    trainee: Trainee
    probe: Trainee
    steps_s: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)


class AggregateCall(NamedTuple):
    """A call of the aggregate during a step."""

    table: Tensor
    idx: Tensor
    indptr: Tensor
    transposed: TransposedTensors | None
    needs_gradient: bool


def bench(run: GnnRun) -> RunResult:
    """Measure all aggregates; the run's own one comes first."""
    check_trainable(run)
    fix_sizes(run)
    return compare(run, _contestants(run))


def compare(run: GnnRun, contestants: Sequence[Contestant]) -> RunResult:
    """Measure these in turns; the first one is the run's own. The sizes of batches are fixed."""
    for contestant in contestants:
        _train(run, contestant, 0)
    ready = _Ready(run)
    reports = []
    for number in range(1, run.settings.epochs + 1):
        for contestant in contestants if number % 2 else reversed(contestants):
            if number > 1 and contestant.mode is not run.settings.mode:
                continue
            reports.append(_train(run, contestant, number))
            run.reporter.epoch(reports[-1])
            if run.computes and contestant.mode is run.settings.mode:
                ready.measure(contestant)
    times = tuple(_times(run, one, reports) for one in contestants if one.mode is run.settings.mode)
    refusals = {one.aggregate.name: one.trainee.step.refusal for one in contestants}
    machine = run.describe_machine() | {"steps": say_steps(reports, refusals)}
    return RunResult(
        run.settings, run.graph.facts(), machine, tuple(reports), compute_only_s=times[0].compute_only_s,
        aggregate_share=times[0].share, kernel_note=run.aggregate.note, aggregates=times, notes=tuple(run.notes),
    )  # fmt: skip


def _contestants(run: GnnRun) -> list[Contestant]:
    fixed_order = run.settings.gradient is Gradient.DETERMINISTIC
    others = [n for n in (DETERMINISTIC_AGGREGATES if fixed_order else TORCH_AGGREGATES) if n != run.aggregate.name]
    if run.settings.model is ModelName.GAT or not run.computes:  # neither calls an aggregate
        others = []
    chosen = [run.aggregate, *[choose_aggregate(name, run.settings.gradient) for name in others]]
    entries = [(one, run.settings.mode) for one in chosen]
    entries += [(run.aggregate, mode) for mode in PipelineMode if mode is not run.settings.mode]
    return [make_contestant(run, aggregate, mode) for aggregate, mode in entries]


def make_contestant(run: GnnRun, aggregate: ChosenAggregate, mode: PipelineMode) -> Contestant:
    """Return an aggregate with a model of its own."""
    return Contestant(aggregate, mode, make_trainee(run, 1, aggregate), make_trainee(run, 1, aggregate))


def _train(run: GnnRun, contestant: Contestant, number: int) -> EpochReport:
    """Train one epoch, or the first batches of it as a warm-up (number 0)."""
    settings, trainee = run.settings, contestant.trainee
    first = _WARMUP if run.layout is None else _WARMUP_CAPTURED
    batches = shuffled_batches(run.graph.splits.train, settings, 1, max(number, 1))[: None if number else first]
    epoch = EpochOfTraining(run, trainee, batches)
    phase = f"{contestant.aggregate.name}, {contestant.mode}" if number else "warming up"

    def after(batch: int) -> None:
        epoch.after(batch)
        run.reporter.progress(RunProgress(phase, 1, number, settings.epochs, batch + 1, len(batches)))

    trainee.model.train()
    sampling = SamplingOf(settings.fanouts, derive_seed(settings.seed, 1, number), contestant.aggregate.transposed)
    went = run.pass_over(epoch.parts, sampling, epoch.step, after, mode=contestant.mode, layout=run.layout)
    return EpochReport(
        1, number, went.seconds, went.batches, run.add_up(went.edges), epoch.loss, None, went.times, went.timeline,
        contestant.aggregate.name, contestant.mode, epoch.captured,
    )  # fmt: skip


def _times(run: GnnRun, contestant: Contestant, reports: Sequence[EpochReport]) -> AggregateTimes:
    name, mode = contestant.aggregate.name, contestant.mode
    own = [one for one in reports if (one.aggregate, one.mode) == (name, mode)]
    epoch_s = statistics.median(one.seconds for one in own)
    if isinstance(run.device, Sleeper):
        return AggregateTimes(name, epoch_s, own[0].batches * run.device.seconds, None)
    step_s = statistics.median(contestant.steps_s) / _READY_STEPS
    shares = [alone / steps for alone, steps in zip(contestant.alone_s, contestant.steps_s, strict=False)]
    share = statistics.median(shares) if shares else None
    return AggregateTimes(name, epoch_s, own[0].batches * step_s, share)


class _Ready:
    """Batches that lie on the device, whose slots have been given back."""

    def __init__(self, run: GnnRun) -> None:
        self._run = run
        self._batches = shuffled_batches(run.graph.splits.train, run.settings, 1, 1)
        parts = share_of_rank(self._batches[:_READY], run.ranks.rank, run.ranks.world)
        self._tickets = []
        sampling = SamplingOf(run.settings.fanouts, run.settings.seed, run.aggregate.transposed)
        with run.loader(parts, sampling, layout=run.layout) as loader:
            for batch in loader:
                flight = run.device.send(batch)
                run.device.finish()  # the copy, which another stream makes
                self._tickets.append(_kept(flight))
                run.device.finish()
                run.device.settle(flight)

    def measure(self, contestant: Contestant) -> None:
        """Time steps, and the aggregate's calls in them alone; both over the same batches."""
        run = self._run
        run.reporter.progress(RunProgress(f"{contestant.aggregate.name}, compute only"))
        epoch = EpochOfTraining(run, contestant.probe, self._batches)
        turns = [self._tickets[number % len(self._tickets)] for number in range(_READY_STEPS)]
        if not contestant.steps_s:
            _run_all(run, turns, epoch)  # a capture for each batch follows the first three steps
        contestant.steps_s.append(_seconds(run, lambda: _run_all(run, turns, epoch)))
        calls = _record(contestant.probe, self._tickets)
        if calls:
            again = _repeatable(run, contestant, lambda: _replay(run, calls, contestant.aggregate.run))
            if again is not None:
                contestant.alone_s.append(_seconds(run, again) * _READY_STEPS / len(self._tickets))


def _kept(flight: InFlight) -> InFlight:
    inputs = flight.inputs
    hops = tuple(_kept_hop(hop) for hop in inputs.hops)
    kept = inputs._replace(labels=inputs.labels.clone(), hops=hops, place=new_place() if inputs.place else 0)
    if inputs.nodes is None:
        kept = kept._replace(features=inputs.features.clone())
    else:
        kept = kept._replace(nodes=inputs.nodes.clone())
    return replace(flight, inputs=kept, memory=(), fixed=None)


def _kept_hop(hop: HopTensors) -> HopTensors:
    back = hop.transposed
    kept = None if back is None else TransposedTensors(back.users.clone(), back.starts.clone())
    return hop._replace(idx=hop.idx.clone(), indptr=hop.indptr.clone(), transposed=kept)


def _run_all(run: GnnRun, flights: Sequence[InFlight], epoch: EpochOfTraining) -> None:
    for flight in flights:
        run.stop.check()
        run.device.run(flight, epoch.step)


def _record(trainee: Trainee, flights: Sequence[InFlight]) -> list[AggregateCall]:
    """Return the aggregate's calls in steps on these batches."""
    calls: list[AggregateCall] = []
    original = trainee.model.aggregate

    def recording(table: Tensor, idx: Tensor, indptr: Tensor, transposed: TransposedTensors | None = None, /) -> Tensor:
        calls.append(AggregateCall(table.detach(), idx, indptr, transposed, table.requires_grad))
        return original(table, idx, indptr, transposed)

    trainee.model.aggregate = recording
    try:
        for flight in flights:
            trainee.step.run_as_it_is(flight.inputs)
    finally:
        trainee.model.aggregate = original
    return calls


def _repeatable(run: GnnRun, contestant: Contestant, work: Callable[[], None]) -> Callable[[], None] | None:
    """Return the work as the contestant's steps do it: captured, where they are; None where it cannot be."""
    if not contestant.probe.step.captured:
        return work
    work()
    try:
        return run.capturer.capture(work)
    except CaptureError as error:  # started one by one, its kernels would take a larger share than they have
        run.notes.append(f"the share of {contestant.aggregate.name} was not measured: its calls alone: {error}.")
        return None


def _replay(run: GnnRun, calls: Sequence[AggregateCall], aggregate: Aggregate) -> None:
    half = run.settings.precision is ComputeType.BF16
    for call in calls:
        table = call.table.detach().requires_grad_(call.needs_gradient)
        with torch.autocast(run.device.where.type, torch.bfloat16, enabled=half):
            means = aggregate(table, call.idx, call.indptr, call.transposed)
        if call.needs_gradient:
            with torch.autograd.set_multithreading_enabled(False):  # as the steps do
                means.backward(torch.ones_like(means))  # type: ignore[no-untyped-call]


def _seconds(run: GnnRun, work: Callable[[], None]) -> float:
    run.device.finish()
    began = time.perf_counter()
    work()
    run.device.finish()
    return time.perf_counter() - began
