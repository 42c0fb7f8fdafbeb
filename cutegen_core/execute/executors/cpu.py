"""The executor that needs no GPU: kernels run thread by thread in the emulator. Right or wrong is found out; speed is
not measured, and no time it takes means anything for a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cutegen_core.execute.emulator import build, run
from cutegen_core.execute.emulator.installation import Installation, install
from cutegen_core.execute.port import Built, Execute, Progress, WaitForCode
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine import workspace
from cutegen_core.machine.sandbox import sandbox


def _ignore_progress(_: str) -> None:
    """Says nothing."""


class CpuExecutor:
    """Implements `executor.Executor` on the emulator. May be used from several threads.

    Args:
        cache: folder for builds; the workspace's when None.
        progress: told when something takes long, such as the first build of the emulator itself.
        build_timeout_s: wall-clock limit of compiling a candidate.
    """

    name = "cpu"
    measures_speed = False
    has_thread_orders = True
    checks_every_trial = True
    can_check = True

    def __init__(
        self, cache: Path | None = None, progress: Progress = _ignore_progress, build_timeout_s: float = 120.0
    ) -> None:
        self._cache = cache or workspace.cache_dir("emulator")
        self._progress = progress
        self.build_timeout_s = build_timeout_s
        self._installation: Installation | None = None
        self._lock = threading.Lock()

    def prepare(self, progress: Progress | None = None) -> Installation:
        """Builds the emulator unless it is there; about half a minute the first time on a machine.

        Raises:
            MachineError: a wheel is missing or another version, or the compiler fails.
        """
        with self._lock:
            if self._installation is None:
                self._installation = install(self._cache, progress or self._progress)
            return self._installation

    def build(
        self, kernel: KernelFile, params: Mapping[str, int | float], compiled: WaitForCode, *, checked: bool
    ) -> Built:
        """Compiles a candidate for the emulator, instrumented when `checked`; answers from the cache where it can."""
        return build.build(self.prepare(), self._cache, kernel, params, checked=checked, timeout_s=self.build_timeout_s)

    @contextmanager
    def open(self, built: Built) -> Iterator[Execute]:
        """Every execution is a fresh process that can open no file and reach no network; MachineError when the
        runner, not the kernel, fails."""
        installed = self.prepare()
        yield lambda execution: run.execute(installed, execution)

    def close(self) -> None:
        """Nothing runs between trials."""

    def describe(self) -> str:
        """What runs the kernels and under which sandbox level."""
        return f"CPU emulator ({self.prepare().compiler.version}; sandbox: {sandbox.probe_level()})"
