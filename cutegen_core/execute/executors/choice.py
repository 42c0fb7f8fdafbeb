"""Choose what runs kernels on this machine."""

from __future__ import annotations

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Executor
from cutegen_core.machine.device import detect
from cutegen_core.records.errors import UsageError
from cutegen_core.records.trial import EXECUTORS, ExecutorKind


def make_executor(kind: ExecutorKind) -> Executor:
    """Return an executor of that kind; UsageError, with the reason, if this machine has none."""
    if kind is ExecutorKind.CPU:
        return CpuExecutor()
    if kind is ExecutorKind.GPU:
        if detect() is None:
            raise UsageError("no GPU that kernels could run on (cutegen doctor says why); use the emulator: cpu")
        from cutegen_core.execute.executors.gpu import GpuExecutor  # the driver's bindings are of no use without a GPU

        return GpuExecutor()
    raise UsageError(f"unknown executor {kind.value!r}; there is {', '.join(EXECUTORS)}")
