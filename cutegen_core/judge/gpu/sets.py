"""Allocate buffer sets on the GPU: fresh values of a workload in memory that other processes can map.

Every tensor of every set has its own mapping (`cuda.memory`), seen here as a torch tensor of its shape. The judge
allocates and draws; the process that times torch.compile maps the same memory, inputs read-only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cutegen_core.execute.cuda import memory
from cutegen_core.execute.cuda.layout import Layout
from cutegen_core.execute.cuda.memory import Buffer
from cutegen_core.judge.reference_process import values
from cutegen_core.judge.reference_process.loading.live import Live
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import TensorRole, TensorSpec, Values

ALIGNMENT = 256
"""As in torch's own allocator, so that no baseline is at a disadvantage."""

MOST_DESCRIPTORS = 240
_SEED_STEP = 0x9E3779B97F4A7C15
_AFFORDABLE = ((29, 2 << 30), (10, 12 << 30))
"""(number of sets, bytes): allocate that many sets as long as they stay within that many bytes."""

_ALWAYS = 4


@dataclass(frozen=True)
class Draw:
    """Origin of the values: a reference with its sizes in place, the distribution of its inputs, and the seed."""

    source: str
    origin: str
    values: Values
    seed: int


@dataclass(frozen=True)
class BufferSet:
    """One set. `tensors` are the buffers as torch tensors, inputs and outputs by contract name."""

    buffers: Mapping[str, Buffer]
    tensors: Mapping[str, torch.Tensor]

    def inputs(self, live: Live) -> dict[str, torch.Tensor]:
        """Return the reference's inputs, by name."""
        return {name: self.tensors[name] for name in live.tensors}

    def free(self) -> None:
        for buffer in self.buffers.values():
            buffer.free()


def count_sets(specs: Sequence[TensorSpec], wanted: int, free_bytes: int) -> int:
    """Return the number of sets to allocate, including the warm-up set; 0 if not even two fit.

    Half of the free memory is left for the reference in float64. Small tensors, which take little time, get many sets;
    a few sets are always made if they fit.
    """
    granularity = memory.granularity()
    one = sum(Layout.of(spec.nbytes, granularity, ALIGNMENT).mapped for spec in specs)
    fitting = free_bytes // 2 // one
    affordable = max(min(most, limit // one) for most, limit in _AFFORDABLE)
    sets = min(wanted + 1, fitting, max(affordable, _ALWAYS), max(2, MOST_DESCRIPTORS // len(specs)))
    return sets if sets >= 2 else 0


def allocate(specs: Sequence[TensorSpec]) -> BufferSet:
    """Allocate a set with undefined values."""
    buffers: dict[str, Buffer] = {}
    try:
        for spec in specs:
            buffers[spec.name] = Buffer.allocate(spec.nbytes, ALIGNMENT)
    except BaseException:
        for buffer in buffers.values():
            buffer.free()
        raise
    return _as_buffer_set(specs, buffers)


def adopt(specs: Sequence[TensorSpec], fds: Sequence[int]) -> BufferSet:
    """Map the inputs of a set that the judge exported; close the descriptors."""
    granularity = memory.granularity()
    buffers: dict[str, Buffer] = {}
    for spec, fd in zip(specs, fds, strict=True):
        if spec.role is TensorRole.OUTPUT:
            os.close(fd)
        else:
            layout = Layout.of(spec.nbytes, granularity, ALIGNMENT)
            buffers[spec.name] = Buffer.import_fd(fd, layout, writable=False)
    return _as_buffer_set([s for s in specs if s.role is not TensorRole.OUTPUT], buffers)


def instantiate(draw: Draw, index: int = 0) -> Live:
    """Return the reference with the values of set `index`, on the GPU.

    The GPU draws the values if the file leaves the device open (gigabytes in milliseconds), otherwise the CPU.
    """
    seed = (draw.seed + index * _SEED_STEP) % (1 << 62)
    try:
        live = _instantiate(draw, seed)
    except ProblemError:
        with torch.device("cpu"):  # the file has its own generators or tensors on the CPU
            live = _instantiate(draw, seed)
    live.model.to("cuda")
    return replace(live, tensors={name: t.to("cuda") for name, t in live.tensors.items()})


def write(live: Live, target: BufferSet) -> None:
    """Copy drawn values into a set.

    Raises:
        ProblemError: the file's shapes or dtypes depend on the seed.
    """
    for name, tensor in live.tensors.items():
        place = target.tensors.get(name)
        if place is None or place.shape != tensor.shape or place.dtype != tensor.dtype:
            raise ProblemError(f"{live.origin}: tensor {name} changes its shape or dtype from one seed to the next.")
        place.copy_(tensor)


def poison(target: BufferSet, specs: Sequence[TensorSpec], byte: int) -> None:
    """Fill the outputs of a set with the byte."""
    for spec in specs:
        if spec.role is TensorRole.OUTPUT and spec.nbytes:
            view_bytes(target.tensors[spec.name]).fill_(byte)


def view_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.uint8)


def _instantiate(draw: Draw, seed: int) -> Live:
    return values.instantiate_drawn(draw.source, draw.origin, draw.values, seed)


def _as_buffer_set(specs: Sequence[TensorSpec], buffers: Mapping[str, Buffer]) -> BufferSet:
    return BufferSet(buffers, {s.name: _view(buffers[s.name], s) for s in specs})


def _view(buffer: Buffer, spec: TensorSpec) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    if spec.nbytes == 0:
        return torch.empty(spec.shape, dtype=dtype, device="cuda")
    flat = torch.as_tensor(_Memory(buffer.address, buffer.nbytes), device="cuda")
    return flat.view(dtype).reshape(spec.shape)


class _Memory:
    """Device memory in the form torch accepts:
    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip
