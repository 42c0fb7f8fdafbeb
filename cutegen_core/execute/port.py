"""Define the port `Executor`, which runs candidates. Adapters: `executors.cpu` (emulator), `executors.gpu` (driver).

1. `build` makes a candidate ready, once.
2. `open` starts a trial.
3. The function it yields executes the candidate, once per workload and setting.
Tensors are passed as files of raw little-endian, contiguous values, so that the reference, the judge and the candidate
can be three processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cutegen_core.execute.compiler.macro_probe import Probe
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine.device import DEFAULT_ARCH
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import TensorSpec
from cutegen_core.records.trial import Diagnostic, ExecutorKind, Finding, SharedAccess, Status

Progress = Callable[[str], None]
"""Function called with a short line as long work proceeds; the page shows it live."""


@dataclass(frozen=True)
class Built:
    """The result of building a candidate for one executor.

    Attributes:
        status: PASSED (ready), COMPILE_ERROR, COMPILE_LIMIT or UNSUPPORTED.
        path: the build, None unless PASSED.
        checked: whether the build is instrumented to find memory errors and races.
        isolated_blocks: whether its blocks have no way to tell one another anything, so that they may run in any number
            of processes with the same result.
    """

    status: Status
    path: Path | None
    checked: bool
    seconds: float
    cached: bool = False
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    isolated_blocks: bool = False


class RunStop:
    """Ends runs that nobody asks for any more: whoever waits for their processes waits for `fd`, too.

    Attributes:
        fd: readable once they are to end; -1 once it is closed, after the last of them.
    """

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC)
        self.is_set = False
        self._lock = threading.Lock()

    def set(self) -> None:
        """End them; from any thread."""
        with self._lock:
            self.is_set = True
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        with self._lock:
            os.close(self.fd)
            self.fd = -1


@dataclass(frozen=True)
class Execution:
    """One run of a built candidate on one workload.

    Attributes:
        inputs: tensor -> file of its values; mapped read-only and compared after the run.
        outputs: tensor -> existing file of its size, to be overwritten; the kernel finds the tensor filled with
            `poison` bytes.
        poison: initial byte of outputs and of scratch that is not zeroed (0xFF makes every float NaN).
        order: order in which ready threads and blocks are scheduled: "forward", "reverse" or "random".
        seed: seed of the random order.
        timeout_s: limit of the whole run: processor time on the emulator, wall-clock time on a GPU.
        edge: -1 or 1: approximate instructions err downward or upward, as far as documented; 0: not at all (emulator).
        stop: what ends the run early (emulator); none: its limit alone.
    """

    built: Built
    plan: LaunchPlan
    inputs: Mapping[TensorSpec, Path]
    outputs: Mapping[TensorSpec, Path]
    poison: int = 0xFF
    order: str = "forward"
    seed: int = 0
    timeout_s: float = 20.0
    edge: int = 0
    stop: RunStop | None = None


@dataclass(frozen=True)
class Executed:
    """How a run ended. PASSED means only that it ran and broke no rule; comparing the outputs is the judge's task.

    Attributes:
        status: PASSED, LAUNCH_ERROR, RUNTIME_ERROR, TIMEOUT, UNSUPPORTED, MEMORY_ERROR or INPUT_MODIFIED.
        approximate: whether it executed an instruction whose result `edge` moves.
        parted: whether lanes that asked for the active mask were told of some of those with them (emulator).
        switches: how often a thread was given its turn, since one that waits gives it away (emulator).
        shared: how the kernels' warps access shared memory (emulator, instrumented runs).
    """

    status: Status
    seconds: float
    message: str = ""
    findings: tuple[Finding, ...] = ()
    approximate: bool = False
    parted: bool = False
    switches: int = 0
    shared: tuple[SharedAccess, ...] = ()


Execute = Callable[[Execution], Executed]
"""Function that runs a candidate once, in a sandboxed process that serves one trial and never sees expected values."""


class CompiledCode(Protocol):
    """The part of the compiler's result that an executor needs (`compiler.compilation.CompileResult` has it)."""

    @property
    def cubin(self) -> bytes: ...

    @property
    def lowered(self) -> Mapping[str, str] | None: ...


WaitForCode = Callable[[], CompiledCode]
"""Function that waits for NVIDIA's compiler and returns its result."""


class Executor(Protocol):
    """Builds and runs candidates. Raises MachineError if the machine, not the candidate, fails.

    Attributes:
        measures_speed: whether its run times say anything about speed.
        needs_code: whether it runs what NVIDIA's compiler made, and nothing that was not compiled and that a check
            could still refuse.
        has_thread_orders: whether it can schedule threads in different orders.
        checks_every_trial: whether every trial looks for memory errors and races; if not, only thorough trials do,
            because the check takes long.
        can_check: whether it can look for them on this machine at all; if not, trials get the mark NOT_SANITIZED.
    """

    kind: ExecutorKind
    measures_speed: bool
    needs_code: bool
    has_thread_orders: bool
    checks_every_trial: bool
    can_check: bool

    def build(
        self,
        kernel: KernelFile,
        params: Mapping[str, int | float],
        wait_for_code: WaitForCode,
        *,
        checked: bool,
        arch: str = DEFAULT_ARCH,
    ) -> Built:
        """Build a candidate for this executor; a failed build is a result, not an exception.

        Args:
            checked: whether to instrument the build to find memory errors and races.
            arch: the architecture that the kernel may ask for (`__CUDA_ARCH__`).
        """

    def write_probe(self, kernel: KernelFile, arch: str) -> Probe | None:
        """Return what asks NVIDIA's compiler for the macros of the executor's own; None if it has no compiler."""

    def open(self, built: Built) -> AbstractContextManager[Execute]:
        """Open a trial; leaving the context ends every process the trial started."""

    def prepare(self, progress: Progress) -> object:
        """Make what the first build needs, so that it need not wait; quick if it is there already."""

    def close(self) -> None:
        """End the processes kept running between trials."""

    def describe(self) -> str:
        """Describe in one line what runs the kernels and the sandbox level."""
