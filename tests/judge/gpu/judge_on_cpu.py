"""The judge's worker with its buffer sets in host memory: `python -m tests.judge.gpu.judge_on_cpu owner|compiler UUID`.

Only the device is taken out: context, stream, clock and mappings. What is asked, drawn, compared and answered is what a
GPU's judge does. Memory "runs out" in the operations that `run_out_in` names.
"""

from __future__ import annotations

import mmap
import os
import sys
from types import SimpleNamespace

import torch

from cutegen_core.execute.cuda.layout import Layout, Shared
from cutegen_core.judge.gpu import sets, worker
from cutegen_core.judge.gpu.answers import Answers
from cutegen_core.judge.gpu.sets import BufferSet
from cutegen_core.judge.reference_process import values
from cutegen_core.machine.worker import inherited_descriptors, serve
from tests.judge.gpu.hungry import MOST_SETS, runs_out_in


def _take_memory(operation: str) -> None:
    if operation in runs_out_in():
        raise torch.OutOfMemoryError("CUDA out of memory")


class _HostBuffer:
    """A tensor in a memory file."""

    def __init__(self, nbytes: int) -> None:
        self.layout = Layout.of(nbytes, mmap.PAGESIZE, sets.ALIGNMENT)
        self._fd = os.memfd_create("set")
        os.ftruncate(self._fd, self.layout.mapped)
        self.memory = mmap.mmap(self._fd, self.layout.mapped)

    def share(self, name: str, *, output: bool) -> Shared:
        return Shared(name, os.dup(self._fd), self.layout, output)

    def find_damage(self) -> None:
        _take_memory("guards")

    def free(self) -> None:
        os.close(self._fd)


class _Answers(Answers):
    def compare_first(self, poison):
        _take_memory("compare")
        return super().compare_first(poison)

    def find_slips(self, timed):
        _take_memory("check")
        return super().find_slips(timed)


def _allocate(specs):
    buffers = {spec.name: _HostBuffer(spec.nbytes) for spec in specs}
    return BufferSet(buffers, {spec.name: _seen(spec, buffers[spec.name]) for spec in specs})


def _seen(spec, buffer):
    raw = torch.frombuffer(buffer.memory, dtype=torch.uint8, count=spec.nbytes, offset=buffer.layout.offset)
    return raw.view(getattr(torch, spec.dtype)).reshape(spec.shape)


def _instantiate(draw, index=0):
    _take_memory("prepare")
    return values.instantiate_drawn(draw.source, draw.origin, draw.values, draw.seed + index)


def _adopt(specs, fds):
    for fd in fds:
        os.close(fd)
    _take_memory("adopt")
    return _allocate(specs)


def _without_a_device() -> None:
    torch.set_default_device = lambda device: None
    torch.cuda.Stream = lambda: SimpleNamespace(cuda_stream=0)
    torch.cuda.get_device_properties = lambda index: SimpleNamespace(L2_cache_size=1 << 20)
    torch.cuda.mem_get_info = lambda: (1 << 30, 1 << 30)
    torch.cuda.synchronize = lambda: None
    worker.Meter = lambda stream, l2_bytes: SimpleNamespace(flush=SimpleNamespace(nbytes=4 * l2_bytes))
    worker.Answers = _Answers
    sets.count_sets = lambda specs, wanted, free: min(wanted + 1, MOST_SETS)
    sets.allocate, sets.instantiate, sets.adopt = _allocate, _instantiate, _adopt


def main() -> None:
    """Entry point."""
    _without_a_device()
    made = {"owner": worker.make_owner, "compiler": worker.make_compiler}[sys.argv[1]]
    serve(made(inherited_descriptors()).handle)


if __name__ == "__main__":
    main()
