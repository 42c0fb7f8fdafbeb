"""Account for an epoch: the work of each stage, and how long the device had nothing to do but wait, and for what.

Between the computations of two batches the device waits: for the preparation until the next batch is prepared, then for
the transfer until it is copied; what remains is the trainer's own time. The first wait begins with the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.records.gnn import BatchStage, Span, StageTimes
from cutegen_core.workloads.gnn.training.flights import Interval

TIMELINE_BATCHES = 24
"""So many batches of an epoch are kept for its picture."""


class Passage(NamedTuple):
    """When one batch went through the stages, on the clock of `time.perf_counter`."""

    number: int
    prepared: tuple[Span, ...]
    copied: Interval
    computed: Interval


def account(passages: Sequence[Passage], began: float, threads: int) -> StageTimes:
    """Return work and exposed waits of an epoch that began at a moment of `time.perf_counter`."""
    prepare = transfer = compute = waited_prepare = waited_transfer = 0.0
    free = began
    for passage in passages:
        ready = max(span.end_s for span in passage.prepared)
        prepare += sum(span.end_s - span.start_s for span in passage.prepared)
        transfer += passage.copied.end - passage.copied.start
        compute += passage.computed.end - passage.computed.start
        start = passage.computed.start
        waited_prepare += max(0.0, min(ready, start) - free)
        waited_transfer += max(0.0, min(passage.copied.end, start) - max(ready, free))
        free = passage.computed.end
    return StageTimes(prepare, transfer, compute, waited_prepare, waited_transfer, threads)


def draw_timeline(passages: Sequence[Passage], began: float) -> tuple[Span, ...]:
    """Return the spans of the first batches, in seconds since the epoch began."""
    spans: list[Span] = []
    for passage in passages[:TIMELINE_BATCHES]:
        spans += passage.prepared
        spans.append(Span(BatchStage.TRANSFER, "copy", passage.number, *passage.copied))
        spans.append(Span(BatchStage.COMPUTE, "compute", passage.number, *passage.computed))
    return tuple(replace(span, start_s=span.start_s - began, end_s=span.end_s - began) for span in spans)
