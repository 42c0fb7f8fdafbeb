"""PATCH: parse and screen a kernel file, and resolve its launch plan for every workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.preprocessing import check_preprocessing
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import Diagnostic, ExecutorKind, Status


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel file with its launch plan for each workload, by the workload's name.

    Attributes:
        on_gpu: the same with the GPU's defaults, where this one has the emulator's and they differ; else None.
    """

    kernel: KernelFile
    params: Mapping[str, Number]
    plans: Mapping[str, LaunchPlan]
    device: Device
    on_gpu: PlannedKernel | None = None

    @property
    def target(self) -> PlannedKernel:
        """What the GPU runs: its resources and its estimate count, whatever runs here."""
        return self.on_gpu or self

    def plan_for(self, signature: Signature, workload: str) -> LaunchPlan:
        """Return the launch plan for other sizes.

        Raises:
            KernelFileError: the plan does not fit them.
        """
        return self.kernel.plan(signature, self.device, self.params, workload)


def plan_candidate(
    source: str, problem: Problem, reference: Reference, device: Device, where: ExecutorKind = ExecutorKind.GPU
) -> PlannedKernel | StageFailure:
    """Parse, screen and plan for what runs it; a refused file is a value, not an exception."""
    try:
        kernel = parse(source)
        refused = screen(kernel) or check_preprocessing(kernel) or _undeclared_numerics(kernel, problem)
        if refused:
            return StageFailure(Status.REJECTED, refused[0].message, refused)
        signatures = {w.name: reference.signature(w) for w in problem.workloads}
        planned = _plan(kernel, signatures, device)
        apart = kernel.for_emulator()
        if where is ExecutorKind.GPU or apart is kernel:
            return planned
        return replace(_plan(apart, signatures, device), on_gpu=planned)
    except KernelFileError as error:
        return StageFailure(Status.REJECTED, str(error), (Diagnostic(error.line, "error", error.what, "plan"),))


def _plan(kernel: KernelFile, signatures: Mapping[str, Signature], device: Device) -> PlannedKernel:
    params = kernel.defaults()
    plans = {name: kernel.plan(signature, device, params, name) for name, signature in signatures.items()}
    return PlannedKernel(kernel.with_instances(plans.values()), params, plans, device)


def _undeclared_numerics(kernel: KernelFile, problem: Problem) -> tuple[Diagnostic, ...]:
    """Return an error if the kernel declares relaxations that the problem does not allow."""
    extra = [name for name in kernel.numerics.allow if name not in problem.allow]
    message = f"[numerics] allow: the problem {problem.name} does not allow {', '.join(extra)}"
    return (Diagnostic(1, "error", message, "plan"),) if extra else ()
