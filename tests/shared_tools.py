"""Tools that the tests of one process share where isolation is not what is tested.

A torch worker takes three seconds of a core to start, and so does a compile server; the tests of one process use one of
each. What is compiled, executed and compared is as real as with tools of a test's own.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.existing import ExistingKernel
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.judge.reference_process import TRACED
from cutegen_core.machine import forking
from cutegen_core.machine.device import Device
from cutegen_core.machine.worker import Worker
from cutegen_core.records.event import SessionSettings
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools, _Judges


class SharedTools:
    """The tools of one process; each is made when it is first asked for."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir()) / "cutegen-shared"
        self._compilers: dict[str, Compiler] = {}
        self._worker: Worker | None = None

    @cached_property
    def executor(self) -> CpuExecutor:
        return CpuExecutor()

    def compiler(self, arch: str = "sm_90a") -> Compiler:
        if arch not in self._compilers:
            self._compilers[arch] = Compiler(arch)
        return self._compilers[arch]

    def worker(self) -> Worker:
        """Return the torch worker; files of references lie below `folder`.

        It can trace, whatever it is asked first: else every file would import for itself what that takes (0.9 s).
        """
        if self._worker is None:
            forking.shared().prepare([TRACED])
            self.folder.mkdir(parents=True, exist_ok=True)
            self._worker = start_worker(self.folder)
        return self._worker

    def reference(self, problem: Problem, scratch: Path | None = None) -> Reference:
        """Return a reference in the worker that all share."""
        return Reference(problem, scratch or Path(tempfile.mkdtemp(dir=self.folder)), worker=self.worker())

    def close(self) -> None:
        for compiler in self._compilers.values():
            compiler.close()
        if self._worker:
            self._worker.close()
        self._compilers, self._worker = {}, None


SHARED = SharedTools()
"""Those of this process; `tests/conftest.py` says where their folder is, and closes them."""


class ToolsOfTests(Tools):
    """The tools of a store's sessions, with the workers that all tests of this process share."""

    def __init__(self, store: Store, run_timeout_s: float | None = None) -> None:
        super().__init__(store)
        self._executors[ExecutorKind.CPU] = SHARED.executor
        self._run_timeout_s = run_timeout_s

    def evaluator(self, owner: str, settings: SessionSettings, judged_by: str = "", *, timed: bool = True) -> Evaluator:
        made = super().evaluator(owner, settings, judged_by, timed=timed)
        return replace(made, run_timeout_s=self._run_timeout_s) if self._run_timeout_s else made

    def _compiler(self, arch: str) -> Compiler:
        return SHARED.compiler(arch)

    def _judges_of(self, owner: str, problem: Problem, timed_on: Device | None) -> _Judges:
        if timed_on is not None:
            return super()._judges_of(owner, problem, timed_on)
        kept = self._judges.get(owner)
        if kept is None or kept.reference.problem != problem:
            reference = SHARED.reference(problem)
            self._judges[owner] = _Judges(reference, reference.scratch, None, ExistingKernel())
        return self._judges[owner]
