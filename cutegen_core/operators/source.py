"""Take everything a kernel needs to run elsewhere out of a store: its file, its build, and what it was tested on."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import KernelResources, Resources, Status
from cutegen_core.trajectory.read import state_of, trial_of
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Store


@dataclass(frozen=True)
class Source:
    """A kernel that passed.

    Attributes:
        label: "SESSION.STEP" or the problem's name, for messages.
        candidate: key of the kernel file.
        signatures: of every workload of the problem, the benchmarks last.
        arch: what the cubin was compiled for; `cubin` is empty where it was not kept.
        kernels: the compiled kernels, whose demangled names are those in the cubin.
    """

    label: str
    problem: Problem
    kernel: KernelFile
    candidate: str
    signatures: tuple[Signature, ...]
    arch: str
    cubin: bytes = field(repr=False)
    kernels: tuple[KernelResources, ...]

    @property
    def params(self) -> Mapping[str, Number]:
        """Return the constants of the code."""
        return self.kernel.defaults()


def read_step(store: Store, name: str) -> Source:
    """Return the kernel of "SESSION.STEP"; a session may be abbreviated, and without a step its best kernel is taken.

    Raises:
        UsageError: there is no such step, its kernel did not pass, or it was tested elsewhere.
    """
    begin, _, step = name.partition(".")
    session = store.find_session(begin)
    state = state_of(store, session)
    found = state.step_of(state.best or "") if not step else _step(state.steps, step)
    if found is None or found.candidate is None:
        raise UsageError(f"session {session} has no {f'step {step}' if step else 'kernel that passed'} with a kernel.")
    label = f"{session}.{found.number}"
    if not found.passed or found.tried is None or not found.tried.trial:
        raise UsageError(
            f"the kernel of {label} is {found.status or 'untried'}: only one that PASSED can be plugged in."
        )
    trial = trial_of(store, found.tried.trial)
    if trial.resources is None:
        raise UsageError(f"the trial of {label} holds no compiled kernel: test it again.")
    problem = store.record(Problem, found.judged_by or state.problem)
    cubin = store.get(trial.resources.cubin) if trial.resources.cubin else b""
    return _source(label, problem, store.text(found.candidate), trial.resources, cubin)


def compiled(
    problem: Problem, text: str, arch: str, *, compiler: Compiler | None = None, reference: Reference | None = None
) -> Source:
    """Compile a kernel file that belongs to no session. Whether it is right is the caller's task.

    Args:
        compiler, reference: those of a caller who has them; otherwise they are started and ended here.

    Raises:
        UsageError: it does not compile.
    """
    kernel = kernel_file.parse(text)
    _refuse_instances(problem.name, kernel)
    own = compiler or Compiler(arch)
    try:
        result = own.compile(kernel)
    finally:
        if compiler is None:
            own.close()
    if result.status is not Status.PASSED:
        raise UsageError(f"the kernel does not compile, so it cannot be plugged in: {result.message}")
    return _source(problem.name, problem, text, Resources(arch, result.kernels, ()), result.cubin, reference)


def _refuse_instances(label: str, kernel: KernelFile) -> None:
    if names := kernel.size_names():
        raise UsageError(
            f"{label} has {', '.join(names)} among its template arguments, so it is another kernel for each size: an "
            "operator, which is called with any, cannot launch it. Choose a kernel that takes them as arguments."
        )


def _step(steps: Sequence[Step], number: str) -> Step | None:
    return next((s for s in steps if str(s.number) == number), None)


def _source(
    label: str, problem: Problem, text: str, resources: Resources, cubin: bytes, reference: Reference | None = None
) -> Source:
    kernel = kernel_file.parse(text)
    if kernel.tensor_maps:
        raise UsageError(
            f"{label} uses tensor maps (TMA), which hold addresses that change with every call: an operator cannot "
            "launch it. Choose a kernel that loads through pointers."
        )
    _refuse_instances(label, kernel)
    signatures = _signatures(problem, reference) if reference else _ask(problem)
    return Source(label, problem, kernel, content_key(text), signatures, resources.arch, cubin, resources.kernels)


def _signatures(problem: Problem, reference: Reference) -> tuple[Signature, ...]:
    return tuple(reference.signature(workload) for workload in problem.workloads)


def _ask(problem: Problem) -> tuple[Signature, ...]:
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-operator-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        return _signatures(problem, reference)
