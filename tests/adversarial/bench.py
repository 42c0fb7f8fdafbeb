"""Evaluators for the adversarial problems: one reference worker, one compiler and one executor for all of them.

On a GPU machine the cubins come from a folder that was filled beforehand without a GPU (`Cubins`), so that the time
held there is spent on running.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import randbits

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import NO_PROBE, Compiler, CompileResult, OnCode
from cutegen_core.execute.compiler.forks import CompileLimits
from cutegen_core.execute.compiler.macro_probe import Probe
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.executors.gpu import GpuExecutor
from cutegen_core.execute.port import Executor
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.trial import Status, Trial
from tests.adversarial.case import Case
from tests.adversarial.problems import PROBLEMS
from tests.shared_tools import SharedTools

SHORT_LIMITS = CompileLimits(seconds=2.5, memory_bytes=1 << 30, log_bytes=100 << 10)
"""For files that exist to run into a limit: the rule is the same, the waiting shorter."""
RUN_TIMEOUT_S = 3.0
SHORT_RUN_TIMEOUT_S = 0.5
"""For kernels that run into it: twice, each time on every processor."""
ARCH = "sm_90a"
_LONGEST_LOG = 20_000


class Cubins:
    """Stands in for the compiler with results kept in a folder; what is missing there is compiled and kept."""

    def __init__(self, compiler: Compiler, folder: Path) -> None:
        self._compiler, self._folder = compiler, folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def limits(self) -> CompileLimits:
        return self._compiler.limits

    @limits.setter
    def limits(self, limits: CompileLimits) -> None:
        self._compiler.limits = limits

    def compile(
        self,
        kernel: KernelFile,
        params: Mapping[str, Number] | None = None,
        probe: Probe = NO_PROBE,
        on_code: OnCode = lambda _: None,
    ) -> CompileResult:
        """Return the kept result of this very text, or a new one."""
        entry = self._folder / content_key(repr((self._compiler.arch, kernel.text, sorted((params or {}).items()))))
        if entry.exists():
            record, _, cubin = gzip.decompress(entry.read_bytes()).partition(b"\n")
            return replace(as_json.load(CompileResult, record.decode()), cubin=cubin, cached=True)
        result = self._compiler.compile(kernel, params, probe, on_code)
        # without its machine code as text, which is most of it and which nobody here reads
        kept = as_json.dump(replace(result, cubin=b"", sass="", log=result.log[:_LONGEST_LOG]))
        entry.write_bytes(gzip.compress(kept.encode() + b"\n" + result.cubin))
        return result


class Bench:
    """All that the trials of one process share; `close` ends it.

    Args:
        executor: "cpu" or "gpu".
        cubins: folder of compiled kernels; None compiles where it runs.
        shared: the compile server and the torch worker of this process's tests; by default it starts its own.
    """

    def __init__(self, executor: str, cubins: Path | None = None, shared: SharedTools | None = None) -> None:
        self.executor: Executor = GpuExecutor() if executor == "gpu" else CpuExecutor()
        self.device: Device = choose_device(None) if executor == "gpu" else choose_device(ARCH)
        self._shared = shared
        self.compiler = shared.compiler(ARCH) if shared else Compiler(self.device.arch)
        self._compiler = Cubins(self.compiler, cubins) if cubins else self.compiler
        self._limits = self.compiler.limits
        self.scratch = Path(tempfile.mkdtemp(prefix="cutegen-adversarial-", dir=shared.folder if shared else None))
        self.worker = shared.worker() if shared else start_worker(self.scratch)
        self._references: dict[str, Reference] = {}
        self._timed: tuple[str, Timer] | None = None

    def evaluate(self, case: Case, seed: int | None = None) -> Trial:
        """Return one trial with a fresh seed, thorough wherever that can change the verdict.

        On a GPU kernels are timed without baselines: what is asked here is whether timed runs are looked at.
        """
        self.compiler.limits = SHORT_LIMITS if case.limited else self._limits
        if isinstance(self.executor, CpuExecutor):
            self.executor.build_timeout_s = SHORT_LIMITS.seconds if case.limited else self._limits.seconds
        candidate, seed = Candidate(case.source, Author.PERSON), randbits(31) if seed is None else seed
        evaluator = self.evaluator(case.problem, run_timeout_s=self._run_timeout_s(case))
        return evaluator.evaluate(candidate, seed=seed, thorough=case.watched, rough=True)

    def _run_timeout_s(self, case: Case) -> float:
        endless = (
            isinstance(self.executor, CpuExecutor) and case.emulator and case.emulator.statuses == (Status.TIMEOUT,)
        )
        return SHORT_RUN_TIMEOUT_S if endless else RUN_TIMEOUT_S

    def evaluator(
        self,
        problem: str,
        keep: Callable[[str | bytes], str] = content_key,
        run_timeout_s: float = RUN_TIMEOUT_S,
    ) -> Evaluator:
        """Return what evaluates kernels of one problem; `keep` stores cubin and SASS (by default nowhere)."""
        found = PROBLEMS[problem]
        if problem not in self._references:
            self._references[problem] = Reference(found, self.scratch / problem, worker=self.worker)
        reference, timer = self._references[problem], self._timer(problem) if self.executor.measures_speed else None
        return Evaluator(
            found, reference, self.executor, self._compiler, self.device, keep, timer, run_timeout_s,  # type: ignore[arg-type]
        )  # fmt: skip

    def _timer(self, problem: str) -> Timer:
        """Return the problem's judge on the GPU; the one of the problem before is ended, since each holds gigabytes."""
        if self._timed is None or self._timed[0] != problem:
            self._end_timer()
            self._timed = (problem, Timer(self._references[problem], self.device))
        return self._timed[1]

    def _end_timer(self) -> None:
        if self._timed:
            self._timed[1].close()
            self._timed = None

    def close(self) -> None:
        self._end_timer()
        if isinstance(self.executor, GpuExecutor):
            self.executor.close()
        self.compiler.limits = self._limits
        if self._shared is None:
            self.worker.close()
            self.compiler.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["ARCH", "SHORT_LIMITS", "Bench", "Cubins"]
