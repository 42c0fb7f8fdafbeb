"""What every export of a kernel starts from: one candidate that passed, its plan, its contract and its types.

1. The session's best candidate is read (or the one that is named), with its trial.
2. Its kernels' C++ types come from the trial, where the compiler left them; an untried candidate is compiled.
3. The contract (names, dtypes, scalars) is asked of the reference for every benchmark workload, on fake tensors.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference, file_key
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.check_arguments import ParameterType, parse_parameters
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.plan_records import LaunchSpec
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec, Workload, WorkloadRole
from cutegen_core.records.trial import KernelResources, Status, Trial
from cutegen_core.share.exports.rendering import one_line
from cutegen_core.trajectory.store import Store
from cutegen_core.views import session_view

_SIGNATURES_KEPT = 64
_signatures: dict[tuple[str, str], Signature] = {}
"""Key of a problem's file, and sizes -> what the reference said of them."""


@dataclass(frozen=True)
class Bundle:
    """One kernel with everything it takes to run it elsewhere.

    Attributes:
        name: the problem's name as an identifier.
        shapes: the contract at every benchmark workload, by its name; names and dtypes are the same in all.
        types: name expression of a kernel -> its parameters' C++ types.
        candidate: key of the kernel file.
        origin: one line that says where it comes from, for comments.
        in_place: output -> input that it replaces, where the export writes in place.
        original: name and text of the file that the existing kernel came from, where it was given.
        open_numbers: the numbers of the module are parameters of the host functions, not constants.
    """

    name: str
    problem: Problem
    kernel: KernelFile
    params: Mapping[str, Number]
    shapes: Mapping[str, Signature]
    types: Mapping[str, tuple[ParameterType, ...]]
    arch: str
    candidate: str
    origin: str
    in_place: Mapping[str, str] = field(default_factory=dict)
    open_numbers: bool = False
    original: tuple[str, str] | None = None

    @property
    def signature(self) -> Signature:
        """Return the contract; its extents and numbers are those of the first benchmark workload."""
        return next(iter(self.shapes.values()))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """`forward`'s tensors, without parameters and buffers."""
        return tuple(t for t in self.signature.inputs if t.role is TensorRole.INPUT)

    def launches(self) -> tuple[tuple[int, LaunchSpec], ...]:
        """Return each launch of the plan with the number of its kernel in `kernel.kernel_names()`."""
        names = self.kernel.kernel_names()
        return tuple((names.index(launch.kernel), launch) for launch in self.kernel.launches)

    def tensor_names(self) -> frozenset[str]:
        """Return everything the plan may pass as a pointer."""
        return frozenset(t.name for t in self.signature.tensors) | {s.name for s in self.kernel.scratch}

    def names_used(self) -> frozenset[str]:
        """Return every name that any expression of the plan mentions."""
        located = [let.value for let in self.kernel.lets]
        for scratch in self.kernel.scratch:
            located += scratch.shape
        for launch in self.kernel.launches:
            located += [*launch.grid, *launch.block, *launch.args, *launch.cluster]
            located += [e for e in (launch.smem, launch.when) if e is not None]
        for spec in self.kernel.tensor_maps:
            located += [*spec.box, *(spec.dims or ()), *(spec.strides or ()), *([spec.offset] if spec.offset else [])]
        mapped = frozenset(spec.tensor for spec in self.kernel.tensor_maps)
        return mapped.union(*(e.expression.names for e in located))

    def scalars(self) -> dict[str, Number]:
        """Return the plain numbers of the contract that the plan uses; bools as 0 and 1."""
        return self.scalars_at(self.signature)

    def scalars_at(self, signature: Signature) -> dict[str, Number]:
        """Return them as they are at one workload."""
        used = self.names_used()
        return {n: v if isinstance(v, float) else int(v) for n, v in signature.scalars.items() if n in used}

    def differing_numbers(self) -> tuple[str, ...]:
        """Return the names of those that are not the same at every benchmark workload."""
        every = [self.scalars_at(signature) for signature in self.shapes.values()]
        return tuple(name for name in self.scalars() if len({numbers[name] for numbers in every}) > 1)

    def require_constant_numbers(self, what: str) -> None:
        """Raise UsageError if this export, which writes the numbers as constants, would be wrong at a workload."""
        if names := self.differing_numbers():
            raise UsageError(
                f"{what} holds {', '.join(names)} as constants, but the benchmark workloads differ in them: "
                "export `modelnew`, `cu` or `library` instead"
            )


def load(store: Store, session: str, candidate: str | None = None) -> Bundle:
    """Return the bundle of a session's best candidate, or of a named one.

    Raises:
        UsageError: imported sessions hold no kernel file, or nothing has passed yet.
        ProblemError, MachineError: the reference or the compiler failed.
    """
    view = session_view(store, session)
    state = view.state
    if state.settings.imported and not view.problem.workloads:
        raise UsageError(
            f"session {session} was {state.settings.origin} and holds Python files, not kernel files: "
            "only the formats of a whole session can export it"
        )
    key = candidate or state.best
    if key is None:
        passed = [step.number for step in state.steps if step.status is Status.PASSED]
        if passed:
            raise UsageError(
                f"no kernel of session {session} was promoted yet: promote step {passed[-1]}, which passed"
            )
        raise UsageError(f"session {session} has no kernel that passed; `cutegen show {session}` tells why")
    step = state.step_of(key)
    trial = store.record(Trial, step.tried.trial) if step and step.tried and step.tried.trial else None
    origin = f"CuTeGen Workbench, session {session}, problem {view.problem.name}, kernel {key[:12]}"
    if refuted := state.refuted(key):
        origin += f", WHICH FAILED ITS ACCEPTANCE TEST ({refuted.message})"
    kernels = trial.resources.kernels if trial and trial.resources else None
    return build(view.problem, store.text(key), state.settings.arch, key, origin, kernels=kernels)


def build(
    problem: Problem,
    source: str,
    arch: str,
    candidate: str,
    origin: str,
    *,
    kernels: tuple[KernelResources, ...] | None = None,
    signatures: Mapping[str, Signature] | None = None,
    params: Mapping[str, Number] | None = None,
) -> Bundle:
    """Build a bundle from its parts; compile for `kernels`, ask the reference for `signatures`, if they are not given.

    Raises:
        KernelFileError: the source is no kernel file.
        UsageError: it does not compile, or the benchmark workloads have different contracts.
    """
    kernel = kernel_file.parse(source)
    if names := kernel.size_names():
        raise UsageError(
            f"the kernel has {', '.join(names)} among its template arguments, so it is another one for each size: "
            "it cannot be exported. Pass them as arguments, or as literals with a 'when'"
        )
    timed = problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[:1]
    known = signatures or _ask_signatures(problem, timed)
    shapes = {workload.name: known[workload.name] for workload in timed}
    if len({tuple((t.name, t.dtype) for t in signature.tensors) for signature in shapes.values()}) > 1:
        raise UsageError(
            "the benchmark workloads differ in the names or dtypes of their tensors: none of them is exported"
        )
    return Bundle(
        name=identifier(problem.name),
        problem=problem,
        kernel=kernel,
        params={**kernel.defaults(), **(params or {})},
        shapes=shapes,
        types={k.kernel: parse_parameters(k.signature) for k in kernels or _compiled(kernel, arch)},
        arch=arch,
        candidate=candidate,
        origin=one_line(origin),
    )


def identifier(name: str) -> str:
    """Return a name that C, C++ and Python accept."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "kernel"
    return f"k_{cleaned}" if cleaned[0].isdigit() else cleaned


def _ask_signatures(problem: Problem, workloads: tuple[Workload, ...]) -> Mapping[str, Signature]:
    """Ask a reference worker, which takes seconds to start; the latest answers are kept for further formats."""
    keys = {w.name: (file_key(problem), repr(sorted(w.sizes.items()))) for w in workloads}
    if not set(keys.values()) <= _signatures.keys():
        if len(_signatures) + len(keys) > _SIGNATURES_KEPT:
            _signatures.clear()
        with (
            tempfile.TemporaryDirectory(prefix="cutegen-export-") as scratch,
            Reference(problem, Path(scratch)) as reference,
        ):
            _signatures.update({keys[w.name]: reference.signature(w) for w in workloads})
    return {name: _signatures[key] for name, key in keys.items()}


def _compiled(kernel: KernelFile, arch: str) -> tuple[KernelResources, ...]:
    compiler = Compiler(arch)
    try:
        result = compiler.compile(kernel)
    finally:
        compiler.close()
    if result.status is not Status.PASSED:
        raise UsageError(f"the kernel does not compile, so it cannot be exported: {result.message}")
    return result.kernels
