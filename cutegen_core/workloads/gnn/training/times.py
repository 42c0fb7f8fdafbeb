"""Account for an epoch: the work of each stage, and how long the device had nothing to do but wait, and for what.

Between the computations of two batches the device waits. Up to the moment when the next batch was prepared it waits for
the preparation, from then on for the transfer. The start of the epoch counts as the end of a computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.records.gnn import Span, Stage, StageTimes
from cutegen_core.workloads.gnn.training.devices import Interval

TIMELINE_BATCHES = 24
"""So many batches of an epoch are kept for its picture."""


class Lane(NamedTuple):
    """A part of a batch's preparation, by one thread."""

    name: str
    interval: Interval


class Passage(NamedTuple):
    """When one batch went through the stages."""

    number: int
    prepared: tuple[Lane, ...]
    copied: Interval
    computed: Interval


def account(passages: Sequence[Passage], began: float, threads: int) -> StageTimes:
    """Return work and exposed waits of an epoch that began at a moment of `time.perf_counter`."""
    prepare = transfer = compute = waited_prepare = waited_transfer = 0.0
    free = began
    for passage in passages:
        ready = max(lane.interval.end for lane in passage.prepared)
        prepare += sum(lane.interval.end - lane.interval.start for lane in passage.prepared)
        transfer += passage.copied.end - passage.copied.start
        compute += passage.computed.end - passage.computed.start
        idle = max(0.0, passage.computed.start - free)
        for_prepare = min(idle, max(0.0, ready - free))
        waited_prepare += for_prepare
        waited_transfer += idle - for_prepare
        free = passage.computed.end
    return StageTimes(prepare, transfer, compute, waited_prepare, waited_transfer, threads)


def draw_timeline(passages: Sequence[Passage], began: float) -> tuple[Span, ...]:
    """Return the spans of the first batches, in seconds since the epoch began."""
    spans = []
    for passage in passages[:TIMELINE_BATCHES]:
        lanes = [(Stage.PREPARE, lane.name, lane.interval) for lane in passage.prepared]
        lanes += [(Stage.TRANSFER, "copy", passage.copied), (Stage.COMPUTE, "compute", passage.computed)]
        spans += [
            Span(stage, lane, passage.number, interval.start - began, interval.end - began)
            for stage, lane, interval in lanes
        ]
    return tuple(spans)
