"""Takes every candidate through the emulator, and compiles it for the GPU, into the folder that travels.

The emulator's verdict is found as the evaluator finds it: an instrumented run in random thread order, two plain runs
over different poison and in opposite orders, the reference's comparison. What was done already is not done again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.crosscheck import corpus
from benchmarks.crosscheck.corpus import Case
from benchmarks.crosscheck.folder import (
    DEVICE,
    NAN_POISON,
    OTHER_POISON,
    SEED,
    Folder,
    Ran,
    Record,
    Run,
    ended,
    verdict,
)
from cutegen_core.execute.compiler.compilation import Compiler, CompileResult
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Built, Execution
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.screening import screen
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Signature, TensorSpec, Workload
from cutegen_core.records.trial import Status

_RUN_LIMIT_S, _WRONG_LIMIT_S = 20.0, 5.0


@dataclass(frozen=True)
class _Bench:
    folder: Folder
    executor: CpuExecutor
    compiler: Compiler
    reference: Reference
    scratch: Path


def emulate(cases: Iterable[Case], folder: Folder, say: Callable[[str], None], *, again: bool = False) -> None:
    """Emulate every case whose record is missing or made from something else; `again` for all of them."""
    executor, compiler = CpuExecutor(), Compiler(DEVICE.arch)
    installed = executor.prepare(say)
    with TemporaryDirectory(prefix="cutegen-crosscheck-") as scratch, ExitStack() as stack:
        stack.callback(compiler.close)
        worker = start_worker(Path(scratch))
        stack.callback(worker.close)
        for problem, group in groupby(cases, key=lambda case: case.problem):
            loaded = corpus.problem_of(next(iter(kept := list(group))))
            with Reference(loaded, Path(scratch) / Path(problem).stem, worker=worker) as reference:
                bench = _Bench(folder, executor, compiler, reference, reference.scratch)
                for case in kept:
                    _one(case, bench, installed.runner.parent.name, say, again)
    folder.prune()


def _one(case: Case, bench: _Bench, emulator: str, say: Callable[[str], None], again: bool) -> None:
    begun = time.monotonic()
    source = corpus.source_of(case, bench.reference)
    of = content_key("\0".join((source, bench.reference.problem.key, emulator, str(SEED))))
    known = bench.folder.load(case.name)
    if known and known.of == of and not again:
        return
    record = _Trial(case, source, of, bench).record()
    bench.folder.save(record)
    say(f"{case.name:34} {summary(record):50} {time.monotonic() - begun:6.1f} s")


def summary(record: Record) -> str:
    """Return the verdict in a few words."""
    end = verdict(record)
    return f"{end.status} {end.kind} {end.message}"[:150]


@dataclass
class _Trial:
    case: Case
    source: str
    of: str
    bench: _Bench

    def record(self) -> Record:
        empty = Record(self.case.name, self.source, "", {}, (), self.of)
        try:
            kernel = parse(self.source)
            workloads = corpus.workloads_of(self.bench.reference.problem)
            plans = [(w, self._plan(kernel, w)) for w in workloads]
            if found := screen(kernel):
                return replace(empty, refused=Ran(Status.REJECTED, found[0].message, "screening", found[0].line))
        except KernelFileError as error:
            return replace(empty, refused=Ran(Status.REJECTED, str(error), "plan", error.line))
        compiled = self.bench.compiler.compile(kernel)
        if compiled.status is not Status.PASSED:
            return replace(empty, refused=Ran(compiled.status, compiled.message, "compile"))
        kept = replace(empty, cubin=self.bench.folder.put(compiled.cubin), lowered=dict(compiled.lowered or {}))
        for _, plan in plans:
            errors = [d for d in check_arguments(plan, compiled.kernels) if d.severity == "error"]
            if errors:
                return replace(kept, refused=Ran(Status.LAUNCH_ERROR, errors[0].message, "arguments", errors[0].line))
        return self._run(kept, kernel, compiled, plans)

    def _plan(self, kernel: KernelFile, workload: Workload) -> LaunchPlan:
        return kernel.plan(self.bench.reference.signature(workload), DEVICE, kernel.defaults(), workload.name)

    def _run(
        self, record: Record, kernel: KernelFile, compiled: CompileResult, plans: list[tuple[Workload, LaunchPlan]]
    ) -> Record:
        checked, plain = (
            self.bench.executor.build(kernel, kernel.defaults(), lambda: compiled, checked=way) for way in (True, False)
        )
        refused = next((b for b in (checked, plain) if b.status is not Status.PASSED), None)
        if refused is None:
            runs = tuple(self._workload(w, plan, checked, plain, kernel) for w, plan in plans)
            return replace(record, runs=runs)
        # The GPU may well run it: its inputs travel.
        status = Status.UNSUPPORTED if refused.status is Status.COMPILE_ERROR else refused.status
        runs = tuple(self._inputs(w)[0] for w, _ in plans)
        return replace(record, runs=runs, refused=Ran(status, refused.message or refused.log[-300:], "build"))

    def _inputs(self, workload: Workload) -> tuple[Run, Mapping[TensorSpec, Path]]:
        inputs = self.bench.reference.write_inputs(workload, SEED)
        keys = {spec.name: self.bench.folder.put(path.read_bytes()) for spec, path in inputs.items()}
        return Run(workload.name, SEED, self.bench.reference.signature(workload), keys), inputs

    def _workload(self, workload: Workload, plan: LaunchPlan, checked: Built, plain: Built, kernel: KernelFile) -> Run:
        run, inputs = self._inputs(workload)
        try:
            return self._three(run, workload, inputs, plan, checked, plain, kernel)
        finally:
            for path in inputs.values():
                path.unlink(missing_ok=True)

    def _three(
        self, run: Run, workload: Workload, inputs: Mapping[TensorSpec, Path], plan: LaunchPlan, checked: Built,
        plain: Built, kernel: KernelFile,
    ) -> Run:  # fmt: skip
        def once(built: Built, poison: int, order: str) -> Ran:
            return self._execute(workload, run.signature, inputs, plan, built, poison, order)

        run = replace(run, checked=replace(once(checked, NAN_POISON, "random"), outputs={}))
        if run.checked and run.checked.status is Status.TIMEOUT:
            return run
        first, second = once(plain, NAN_POISON, "forward"), once(plain, OTHER_POISON, "reverse")
        if second.outputs != first.outputs and kernel.numerics.deterministic and second.status is Status.PASSED:
            second = replace(second, status=Status.NONDETERMINISTIC, message="changes with order or old contents")
        return replace(run, plain=first, again=second)

    def _execute(
        self, workload: Workload, signature: Signature, inputs: Mapping[TensorSpec, Path], plan: LaunchPlan,
        built: Built, poison: int, order: str,
    ) -> Ran:  # fmt: skip
        folder = self.bench.scratch / f"{order}-{built.checked}"
        folder.mkdir(exist_ok=True)
        outputs = {spec: folder / spec.name for spec in signature.outputs}
        for spec, path in outputs.items():
            path.write_bytes(bytes(spec.nbytes))
        limit_s = _WRONG_LIMIT_S if self.case.defect else _RUN_LIMIT_S
        execution = Execution(built, plan, inputs, outputs, poison, order, 1, limit_s)
        with self.bench.executor.open(built) as execute:
            ran = ended(execute(execution))
        if ran.status is not Status.PASSED:
            return ran
        comparisons = self.bench.reference.compare(workload, SEED, outputs, poison=poison)
        kept = {spec.name: self.bench.folder.put(path.read_bytes()) for spec, path in outputs.items()}
        shutil.rmtree(folder)
        wrong = next((c for c in comparisons if c.wrong), None)
        if wrong is None:
            return replace(ran, outputs=kept)
        message = f"{wrong.wrong} of {wrong.total} elements of {wrong.output} are wrong; {wrong.pattern}"
        return replace(ran, status=Status.INCORRECT_NUMERICAL, message=message, outputs=kept)
