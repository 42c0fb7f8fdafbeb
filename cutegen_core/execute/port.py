"""The port `Executor`: what runs a candidate. Adapters: `executors.cpu` (emulator) and `executors.gpu` (driver).

A candidate is built once, opened once a trial and executed many times. Tensors travel as files of raw little-endian,
contiguous values, so the reference, the judge and the candidate can be three processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import TensorSpec
from cutegen_core.records.trial import Diagnostic, Finding, Status

Progress = Callable[[str], None]
"""Called with a short line as long work proceeds; shown live in the page."""


@dataclass(frozen=True)
class Built:
    """A candidate made ready for one executor.

    Attributes:
        status: PASSED (ready), COMPILE_ERROR, COMPILE_LIMIT or UNSUPPORTED.
        path: what was built, None unless PASSED.
        checked: with the instrumentation that finds memory errors and races.
    """

    status: Status
    path: Path | None
    checked: bool
    seconds: float
    cached: bool = False
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""


@dataclass(frozen=True)
class Execution:
    """One run of a built candidate on one workload.

    Attributes:
        inputs: tensor -> file holding its values; mapped read-only, compared afterwards.
        outputs: tensor -> existing file of its size to be overwritten; the kernel finds it filled with `poison` bytes.
        poison: the byte unwritten outputs and uninitialised scratch hold (0xFF makes every float NaN).
        order: the order in which ready threads and blocks are picked: "forward", "reverse" or "random".
        seed: of the random order.
        timeout_s: wall-clock limit of the whole run.
    """

    built: Built
    plan: LaunchPlan
    inputs: Mapping[TensorSpec, Path]
    outputs: Mapping[TensorSpec, Path]
    poison: int = 0xFF
    order: str = "forward"
    seed: int = 0
    timeout_s: float = 20.0


@dataclass(frozen=True)
class Executed:
    """How a run ended. PASSED says only that it ran and broke no rule: right or wrong is the comparison's business.

    Attributes:
        status: PASSED, LAUNCH_ERROR, RUNTIME_ERROR, TIMEOUT, UNSUPPORTED, MEMORY_ERROR or INPUT_MODIFIED.
    """

    status: Status
    seconds: float
    message: str = ""
    findings: tuple[Finding, ...] = ()


Execute = Callable[[Execution], Executed]
"""Runs once, in a sandboxed process that serves one trial and has never seen an expected answer."""


class CompiledCode(Protocol):
    """What an executor needs of the compiler's result: `compiler.compilation.CompileResult` is one."""

    @property
    def cubin(self) -> bytes: ...

    @property
    def lowered(self) -> Mapping[str, str] | None: ...


WaitForCode = Callable[[], CompiledCode]


class Executor(Protocol):
    """Builds and runs candidates. Raises MachineError when the machine, not the candidate, fails."""

    name: str
    measures_speed: bool
    """Whether what it runs on says anything about speed."""
    has_thread_orders: bool
    """Whether it has thread orders to choose from."""
    checks_every_trial: bool
    """Whether memory errors and races are looked for in every trial, or only in thorough ones since it takes long."""
    can_check: bool
    """Whether they can be looked for on this machine at all; where not, trials are marked NOT_SANITIZED."""

    def build(
        self, kernel: KernelFile, params: Mapping[str, int | float], compiled: WaitForCode, *, checked: bool
    ) -> Built:
        """Builds for this executor; a candidate that does not build is a value, not an exception.

        Args:
            compiled: waits for NVIDIA's compiler and gives its result.
            checked: with what finds memory errors and races.
        """

    def open(self, built: Built) -> AbstractContextManager[Execute]:
        """Room for one trial's executions; what it started is gone when it is left, whatever happened."""

    def prepare(self, progress: Progress) -> object:
        """Makes what the first build would otherwise wait for; quick when it is there already."""

    def close(self) -> None:
        """Ends what it keeps running between trials."""

    def describe(self) -> str:
        """One line for the page: what runs the kernels and under which sandbox level."""
