"""Keep the memory of prepared batches: buffers that are used again, page-locked where a GPU copies from them."""

from __future__ import annotations

import threading

import torch

from cutegen_core.workloads.gnn.graph import Array, Ids
from cutegen_core.workloads.gnn.native.abi import address, native
from cutegen_core.workloads.gnn.sampling.fixed import IGNORED, FixedBuffers, FixedLayout
from cutegen_core.workloads.gnn.sampling.packed import PackedBuffers

_SPARE = 1.25
"""Rows get more memory by this factor than the batch that did not fit, since the next may be larger still."""


class Slot:
    """The memory of one batch.

    Attributes:
        buffers: ids of a batch of any size.
    """

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._rows = torch.empty(0, dtype=torch.uint8)
        self._fixed: FixedBuffers | None = None
        self.buffers = PackedBuffers(pin=pin)

    def fixed(self, layout: FixedLayout) -> FixedBuffers:
        """Return the memory for a padded batch's ids."""
        if self._fixed is None or self._fixed.layout is not layout:
            self._fixed = FixedBuffers(layout, pin=self._pin)
        return self._fixed

    def slice_rows(self, table: Array, nodes: Ids, room: int) -> torch.Tensor:
        """Return `room` rows in this slot's memory, of which the first are the rows of `table` at `nodes`.

        The others are finite wherever the table is: zeros, or rows of an earlier batch.
        """
        row_bytes = table.shape[1] * table.itemsize
        wanted = room * row_bytes
        if len(self._rows) < wanted:
            self._rows = torch.zeros(int(wanted * _SPARE), dtype=torch.uint8, pin_memory=self._pin)
        native().gather_rows(address(table), row_bytes, address(nodes), len(nodes), self._rows.data_ptr())
        return self._rows[:wanted].view(_dtype(table)).view(room, table.shape[1])


def slice_labels(labels: Ids, nodes: Ids, memory: torch.Tensor, room: int) -> torch.Tensor:
    """Return `room` labels in a slot's memory: those of `nodes`, and then ignored ones."""
    native().gather_rows(address(labels), labels.itemsize, address(nodes), len(nodes), memory.data_ptr())
    out = memory[:room]
    out[len(nodes) :] = IGNORED
    return out


def _dtype(table: Array) -> torch.dtype:
    return torch.float16 if table.itemsize == 2 else torch.float32


class SlotPool:
    """Slots that loaders hand on from epoch to epoch, so that memory is allocated and page-locked once."""

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._spare: list[Slot] = []
        self._lock = threading.Lock()

    def take(self) -> Slot:
        """Return a slot that no batch uses, a new one if there is none."""
        with self._lock:
            return self._spare.pop() if self._spare else Slot(pin=self._pin)

    def give_back(self, slot: Slot) -> None:
        """Keep a slot for the next loader."""
        with self._lock:
            self._spare.append(slot)
