"""Prepare batches in threads: sample, slice into a slot's memory, hand over in order.

1. A thread first takes a slot and then the next number, so the batch that is waited for always has a slot.
2. It samples and slices without holding Python's lock, and lays the batch, or its own error, under its number.
3. The trainer takes the batches in order, and gives each slot back when nothing reads it any more.
Threads and trainer sleep until there is something to do for them. Leaving the loader ends all threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

import torch

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import BatchStage, Span
from cutegen_core.workloads.gnn.graph import GraphData, Ids
from cutegen_core.workloads.gnn.sampling.batch import Sampled
from cutegen_core.workloads.gnn.sampling.fixed import DoesNotFitError, FixedLayout
from cutegen_core.workloads.gnn.sampling.packed import PackedIds, pack
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from cutegen_core.workloads.gnn.sampling.slots import Slot, SlotPool, slice_labels


@dataclass
class Batch:
    """A prepared batch; its arrays are views of a slot's memory.

    Attributes:
        sampled: padded, where `fixed`.
        features: [m, width] of all nodes, None where the loader slices none.
        nodes: of a padded batch, how many are its own; the rows of the others in `features` mean nothing.
        labels: int64, of the seeds.
        fixed: the batch is padded to the loader's fixed sizes.
        packed: the same ids in one piece.
        prepared: sampling, then slicing, in seconds of `time.perf_counter`.
    """

    number: int
    sampled: Sampled
    features: torch.Tensor | None
    nodes: int
    labels: torch.Tensor
    packed: PackedIds
    fixed: bool
    prepared: tuple[Span, Span]
    _loader: BatchLoader = field(repr=False)
    _slot: Slot | None = field(repr=False)

    def release(self) -> None:
        """Give the slot back: nothing of this batch may be read afterwards. A second call does nothing."""
        slot, self._slot = self._slot, None
        if slot is not None:
            self._loader.reuse(slot)


class BatchLoader:
    """Iterates over prepared batches, in order; use it as a context manager, and once."""

    def __init__(
        self, graph: GraphData, sampler: Sampler, batches: Sequence[Ids], *, threads: int, slots: int, pin: bool,
        slice_features: bool, first: int = 0, pool: SlotPool | None = None, layout: FixedLayout | None = None,
        transposed: bool = False,
    ) -> None:  # fmt: skip
        """Prepare `batches`, each the seeds of one.

        Args:
            first: the sampler's number of the first batch; epochs that shall differ begin at different ones.
            pool: where slots come from and go to; without one, the loader allocates its own.
            layout: pad batches to it; one that does not fit stays as it is.
            transposed: transpose every hop but the outermost one.
        """
        if threads < 1 or slots < 1:
            raise UsageError(f"a loader needs at least one thread and one slot; it has {threads} and {slots}.")
        self._graph, self._sampler, self._batches = graph, sampler, batches
        self._slice_features, self._first, self._layout = slice_features, first, layout
        self._transposed = transposed
        self._pool = pool or SlotPool(pin=pin)
        self._free = [self._pool.take() for _ in range(slots)]
        self._ready: dict[int, Batch | BaseException] = {}
        self._next, self._given, self._closed = 0, 0, False
        lock = threading.Lock()
        self._may_prepare, self._may_take = threading.Condition(lock), threading.Condition(lock)
        self._threads = [
            threading.Thread(target=self._work, args=(f"prepare {number}",), name=f"gnn prepare {number}", daemon=True)
            for number in range(threads)
        ]

    def __enter__(self) -> BatchLoader:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._may_prepare:
            self._closed = True
            self._may_prepare.notify_all()
            self._may_take.notify_all()
        for thread in self._threads:
            thread.join()
        unread = [batch._slot for batch in self._ready.values() if isinstance(batch, Batch)]
        for slot in (*self._free, *unread):
            if slot is not None:
                self._pool.give_back(slot)
        self._free, self._ready = [], {}

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for number in range(self._given, len(self._batches)):
            yield self._take(number)

    def reuse(self, slot: Slot) -> None:
        """Take a slot back from a batch."""
        with self._may_prepare:
            if self._closed:
                self._pool.give_back(slot)
            else:
                self._free.append(slot)
                self._may_prepare.notify()

    def _take(self, number: int) -> Batch:
        with self._may_take:
            self._may_take.wait_for(lambda: number in self._ready or self._closed)
            if self._closed:
                raise UsageError("the loader is closed.")
            found = self._ready.pop(number)
            self._given = number + 1
        if isinstance(found, BaseException):
            raise found
        return found

    def _work(self, lane: str) -> None:
        while (taken := self._begin()) is not None:
            number, slot = taken
            try:
                found: Batch | BaseException = self._prepare(number, slot, lane)
            except BaseException as error:  # noqa: BLE001 - the trainer raises it
                found = error
                self.reuse(slot)
            with self._may_take:
                self._ready[number] = found
                self._may_take.notify()

    def _begin(self) -> tuple[int, Slot] | None:
        """Return the next number and a slot for it, or None at the end."""
        with self._may_prepare:
            self._may_prepare.wait_for(lambda: self._closed or self._next >= len(self._batches) or self._free)
            if self._closed or self._next >= len(self._batches):
                return None
            number, self._next = self._next, self._next + 1
            if self._next == len(self._batches):
                self._may_prepare.notify_all()  # the others have nothing left to do
            return number, self._free.pop()

    def _prepare(self, number: int, slot: Slot, lane: str) -> Batch:
        graph, seeds = self._graph, self._batches[number]
        start = time.perf_counter()
        drawn = self._draw(number, slot)
        middle = time.perf_counter()
        sampled, own = drawn.sampled, drawn.sampled.nodes[: drawn.nodes]
        features = slot.slice_rows(graph.features, own, len(sampled.nodes)) if self._slice_features else None
        labels = slice_labels(graph.labels, own[: len(seeds)], drawn.labels, sampled.hops[-1].targets)
        end = time.perf_counter()
        spans = (
            Span(BatchStage.PREPARE, lane, number, start, middle),
            Span(BatchStage.PREPARE, lane, number, middle, end),
        )
        return Batch(number, sampled, features, drawn.nodes, labels, drawn.packed, drawn.fixed, spans, self, slot)

    def _draw(self, number: int, slot: Slot) -> _DrawnBatch:
        """Draw a batch, padded where it fits."""
        seeds, sampler = self._batches[number], self._sampler
        if self._layout is not None:
            buffers = slot.fixed(self._layout)
            with contextlib.suppress(DoesNotFitError):
                sampled = sampler.sample_into(seeds, self._first + number, buffers)
                padded, packed = buffers.pad(sampled), buffers.packed(transposed=self._transposed)
                if self._transposed:
                    padded = buffers.transpose(padded)
                return _DrawnBatch(padded, len(sampled.nodes), buffers.labels, packed, fixed=True)
        slot.buffers.reserve_labels(len(seeds))
        sampled = sampler.sample_into(seeds, self._first + number, slot.buffers)
        if self._transposed:
            if not slot.buffers.reserve_transposed(sampled):
                sampled = sampler.sample_into(seeds, self._first + number, slot.buffers)
            sampled = slot.buffers.transpose(sampled)
        return _DrawnBatch(sampled, len(sampled.nodes), slot.buffers.labels, pack(slot.buffers, sampled), fixed=False)


class _DrawnBatch(NamedTuple):
    """A batch as it was drawn; `labels` is the memory for them, `nodes` how many are its own."""

    sampled: Sampled
    nodes: int
    labels: torch.Tensor
    packed: PackedIds
    fixed: bool
