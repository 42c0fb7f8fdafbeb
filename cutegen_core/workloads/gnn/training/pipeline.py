"""Take batches through prepare, transfer and compute, one after another or overlapped.

Pipelined, while batch i is computed:
1. the loader's threads prepare the next batches in free slots;
2. batch i + 1 is sent to the device as soon as it is prepared;
3. the slot of batch i is given back once its copy has ended.

Serial, there is one slot, and a batch leaves it only when its computation has ended: nothing overlaps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutegen_core.records.gnn import PipelineMode, Span, StageTimes
from cutegen_core.workloads.gnn.sampling.loader import Batch, BatchLoader
from cutegen_core.workloads.gnn.training.flights import ComputeDevice, InFlight, Interval, Step
from cutegen_core.workloads.gnn.training.times import Passage, account, draw_timeline

AfterBatch = Callable[[int], None]


class PassTimes(NamedTuple):
    """What one pass over batches took."""

    seconds: float
    batches: int
    edges: int
    times: StageTimes
    timeline: tuple[Span, ...]


def run_batches(
    loader: BatchLoader, threads: int, device: ComputeDevice, step: Step, mode: PipelineMode, after: AfterBatch
) -> PassTimes:
    """Run the step on every batch of a loader that has not begun.

    Args:
        after: called with the batch's number when it was computed, or queued on a GPU; may raise to end the pass.
    """
    began = time.perf_counter()
    go = _pipelined if mode is PipelineMode.PIPELINED else _serial
    passed = []
    with loader:
        for went in go(iter(loader), device, step):
            passed.append(went)
            after(went.number)
    device.finish()
    seconds = time.perf_counter() - began
    passages = [Passage(went.number, went.prepared, went.copied(), went.computed()) for went in passed]
    edges = sum(went.edges for went in passed)
    return PassTimes(seconds, len(passed), edges, account(passages, began, threads), draw_timeline(passages, began))


class _Went(NamedTuple):
    """What is kept of a batch that went through: no tensor, so that its memory is free."""

    number: int
    edges: int
    prepared: tuple[Span, ...]
    copied: Callable[[], Interval]
    computed: Callable[[], Interval]


def _serial(batches: Iterator[Batch], device: ComputeDevice, step: Step) -> Iterator[_Went]:
    for batch in batches:
        flight = device.send(batch)
        device.run(flight, step)
        device.finish()
        yield _settle(flight, device)


def _pipelined(batches: Iterator[Batch], device: ComputeDevice, step: Step) -> Iterator[_Went]:
    following = _send_next(batches, device)
    while following is not None:
        flight = following
        device.run(flight, step)
        following = _send_next(batches, device)
        yield _settle(flight, device)


def _settle(flight: InFlight, device: ComputeDevice) -> _Went:
    batch = flight.batch
    went = _Went(batch.number, batch.sampled.edges, batch.prepared, flight.copied, flight.computed)
    device.settle(flight)
    return went


def _send_next(batches: Iterator[Batch], device: ComputeDevice) -> InFlight | None:
    batch = next(batches, None)
    return None if batch is None else device.send(batch)
