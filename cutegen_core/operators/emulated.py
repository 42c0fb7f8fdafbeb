"""Run a kernel on the CPU emulator for tensors that torch holds: for small graphs, where there is no GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import CompiledCode, Execution
from cutegen_core.operators.plan_closure import PlanClosure, Planned
from cutegen_core.operators.source import Source
from cutegen_core.records.errors import MachineError, UsageError
from cutegen_core.records.problem import TensorSpec
from cutegen_core.records.trial import Status

MOST_ELEMENTS = 8_000_000
"""Of inputs, results and scratch together."""
MOST_THREADS = 8_000_000
LONGEST_S = 30.0
"""Of processor time for one call."""

_SHARED_MEMORY = Path("/dev/shm")


class Emulated:
    """A kernel built for the emulator; each call runs it in a sandboxed process of its own."""

    def __init__(self, source: Source, executor: CpuExecutor | None = None) -> None:
        self._label = source.label
        self._executor = executor or CpuExecutor()
        self._built = self._executor.build(source.kernel, source.params, _no_code, checked=False, arch=source.arch)
        if self._built.status is not Status.PASSED:
            raise UsageError(f"{source.label} cannot run on the emulator ({self._built.status}): {self._built.message}")
        self._folder = str(_SHARED_MEMORY) if os.access(_SHARED_MEMORY, os.W_OK) else None

    def run(
        self,
        closure: PlanClosure,
        planned: Planned,
        specs: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
        inputs: Sequence[torch.Tensor],
    ) -> list[torch.Tensor]:
        """Return the results.

        Args:
            specs: of the inputs and of the outputs, as this call has them.

        Raises:
            UsageError: too much for the emulator, or the kernel failed.
        """
        plan = closure.launch_plan(planned)
        self._check_size(planned, specs)
        with tempfile.TemporaryDirectory(prefix="cutegen-operator-", dir=self._folder) as folder:
            given = {spec: Path(folder) / f"in-{spec.name}" for spec in specs[0]}
            made = {spec: Path(folder) / f"out-{spec.name}" for spec in specs[1]}
            for path, tensor in zip(given.values(), inputs, strict=True):
                whole = tensor.detach().clone(memory_format=torch.contiguous_format)  # of one element, with stride 1
                whole.reshape(-1).view(torch.uint8).numpy().tofile(path)
            for spec, path in made.items():
                with path.open("wb") as file:
                    file.truncate(spec.nbytes)
            with self._executor.open(self._built) as execute:
                ran = execute(Execution(self._built, plan, given, made, timeout_s=LONGEST_S))
            if ran.status is not Status.PASSED:
                self._refuse(ran.status, ran.message)
            return [_read(path, spec) for spec, path in made.items()]

    def _check_size(self, planned: Planned, specs: tuple[Sequence[TensorSpec], Sequence[TensorSpec]]) -> None:
        elements = sum(spec.numel for group in specs for spec in group)
        threads = sum(_volume(launch.grid) * _volume(launch.block) for launch in planned.launches)
        if elements > MOST_ELEMENTS or threads > MOST_THREADS:
            raise UsageError(
                f"{self._label} would run on the CPU emulator here, since the tensors are on the CPU, with "
                f"{elements:,} elements and {threads:,} threads; that takes minutes to hours, so at most "
                f"{MOST_ELEMENTS:,} and {MOST_THREADS:,} are tried. Use a smaller graph, or a GPU."
            )

    def _refuse(self, status: Status, message: str) -> NoReturn:
        if status is Status.TIMEOUT:
            raise UsageError(
                f"{self._label} took more than {LONGEST_S:g} s on the CPU emulator for one call. Use a smaller graph, "
                "or a GPU."
            )
        raise UsageError(f"{self._label} failed on the CPU emulator ({status}): {message}")


def _read(path: Path, spec: TensorSpec) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    if not spec.nbytes:
        return torch.empty(spec.shape, dtype=dtype)
    return torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(dtype).reshape(spec.shape)


def _volume(extents: tuple[int, int, int]) -> int:
    x, y, z = extents
    return x * y * z


def _no_code() -> CompiledCode:
    raise MachineError("the emulator needs no cubin")
