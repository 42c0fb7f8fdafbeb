"""Run kernels without a GPU: the emulator executes them thread by thread.

This finds wrong results, memory errors and races. It does not measure speed; emulator times say nothing about a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cutegen_core.execute.compiler.macro_probe import Probe, write_probe
from cutegen_core.execute.emulator import architecture, build, macro_table, run
from cutegen_core.execute.emulator.installation import Installation, install
from cutegen_core.execute.port import Built, Execute, Progress, WaitForCode
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.preprocessing import read_names
from cutegen_core.machine import workspace
from cutegen_core.machine.device import DEFAULT_ARCH
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.together import Together
from cutegen_core.records.trial import ExecutorKind


def _ignore_progress(_: str) -> None:
    """Do nothing."""


class CpuExecutor:
    """Implements `execute.port.Executor` on the emulator. Several threads may use it.

    Args:
        cache: folder for builds; None means the workspace's.
        progress: called when something takes long, such as the first build of the emulator itself.
        build_timeout_s: limit of the processor time of compiling a candidate.
    """

    kind = ExecutorKind.CPU
    measures_speed = False
    needs_code = False
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
        self._builds: Together[build.BothBuilds] = Together()

    def prepare(self, progress: Progress | None = None) -> Installation:
        """Build the emulator unless it exists; takes about half a minute the first time on a machine.

        Raises:
            MachineError: a wheel is missing or has the wrong version, or the compiler fails.
        """
        with self._lock:
            if self._installation is None:
                self._installation = install(self._cache, progress or self._progress)
            return self._installation

    def build(
        self,
        kernel: KernelFile,
        params: Mapping[str, int | float],
        wait_for_code: WaitForCode,
        *,
        checked: bool,
        arch: str = DEFAULT_ARCH,
    ) -> Built:
        """Compile a candidate for the emulator, instrumented if `checked`, or return the cached build.

        Both builds are made at once; threads that ask for them at the same time wait for one compile.
        """
        installed = self.prepare()
        make = partial(build.build, installed, self._cache, kernel, params, arch=arch, timeout_s=self.build_timeout_s)
        builds = self._builds.ask((kernel.text, tuple(sorted(params.items())), arch), make)
        return builds.checked if checked else builds.plain

    def write_probe(self, kernel: KernelFile, arch: str) -> Probe:
        """Return what asks NVIDIA's compiler whether the file's names mean there what they mean here."""
        installed, names = self.prepare(), read_names(kernel)
        table = architecture.replace(macro_table.list_macros(installed, self._cache, kernel), arch)
        pasted = macro_table.list_pasted(installed, self._cache, kernel) if names.pastes else frozenset()
        harmless = macro_table.HARMLESS | (macro_table.ONLY_CALLED - names.tested)
        return write_probe({*names.lines, *pasted}, names.own, table, harmless)

    @contextmanager
    def open(self, built: Built) -> Iterator[Execute]:
        """Open a trial. Each execution is a fresh process that can open no file and reach no network.

        Raises:
            MachineError: the runner, not the kernel, fails.
        """
        installed = self.prepare()
        yield lambda execution: run.execute(installed, execution)

    def close(self) -> None:
        """Do nothing: no process runs between trials."""

    def describe(self) -> str:
        """Describe the emulator's compiler and the sandbox level."""
        return f"CPU emulator ({self.prepare().compiler.version}; sandbox: {sandbox.probe_level()})"
