"""Keep the memory of prepared batches: buffers that are used again, page-locked where a GPU copies from them."""

from __future__ import annotations

import threading
from functools import partial

import torch

from cutegen_core.workloads.gnn.graph import Array, Ids
from cutegen_core.workloads.gnn.native.abi import address, native
from cutegen_core.workloads.gnn.sampling.sampler import Buffers

_SPARE = 1.25
"""Buffers are made larger by this factor than the batch that did not fit, since the next may be larger still."""


class Slot:
    """The memory of one batch."""

    def __init__(self, *, pin: bool) -> None:
        self._pin = pin
        self._rows = torch.empty(0, dtype=torch.uint8)
        self._labels = torch.empty(0, dtype=torch.int64)
        self.buffers = Buffers(partial(_ids, pin))

    def slice_rows(self, table: Array, nodes: Ids) -> torch.Tensor:
        """Return the rows of `table` at `nodes`, copied into this slot's memory."""
        row_bytes = table.shape[1] * table.itemsize
        wanted = len(nodes) * row_bytes
        if len(self._rows) < wanted:
            self._rows = self._allocate(int(wanted * _SPARE), torch.uint8)
        native().gather_rows(address(table), row_bytes, address(nodes), len(nodes), self._rows.data_ptr())
        return self._rows[:wanted].view(_dtype(table)).view(len(nodes), table.shape[1])

    def slice_labels(self, labels: Ids, nodes: Ids) -> torch.Tensor:
        """Return the labels of `nodes`, copied into this slot's memory."""
        if len(self._labels) < len(nodes):
            self._labels = self._allocate(len(nodes), torch.int64)
        out = self._labels[: len(nodes)]
        native().gather_rows(address(labels), labels.itemsize, address(nodes), len(nodes), out.data_ptr())
        return out

    def _allocate(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(count, dtype=dtype, pin_memory=self._pin)


def _ids(pin: bool, count: int) -> Ids:
    ids: Ids = torch.empty(count, dtype=torch.int64, pin_memory=pin).numpy()
    return ids


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
