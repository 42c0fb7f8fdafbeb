"""Check what NVIDIA's compiler made of a kernel against its plan and its declarations, and list its resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.compiler import symbols
from cutegen_core.execute.compiler.collisions import collisions
from cutegen_core.execute.compiler.compilation import CompileResult
from cutegen_core.execute.compiler.launch_bounds import read_launch_bounds
from cutegen_core.execute.compiler.launch_limits import find_launch_errors
from cutegen_core.execute.compiler.machine_reads import find_machine_reads, names_machine
from cutegen_core.execute.compiler.macro_probe import SUPPRESSED
from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.kernel.aliases import check_restricted, find_restricted
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.preprocessing import read_names
from cutegen_core.machine.device import Device
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.trial import Diagnostic, KernelResources, Occupancy, Resources, Status

_HEAP_TEXT = (
    "the kernel uses the device heap (malloc, new), which outlives launches: results could be kept there and handed "
    "out later, and nobody can check its bounds; declare the memory as [[scratch]] instead"
)
_HEAP = StageFailure(Status.REJECTED, _HEAP_TEXT, (Diagnostic(0, "error", _HEAP_TEXT, "plan"),))


@dataclass(frozen=True)
class CompileRefusal:
    """A compilation that ended the trial, with the evidence to show."""

    failure: StageFailure
    log: str
    hints: tuple[Diagnostic, ...]
    resources: Resources | None = None


def check_machine_code(
    plan: PlannedKernel, machine: CompileResult, device: Device, keep: Callable[[str | bytes], str]
) -> tuple[Resources, tuple[Diagnostic, ...]] | CompileRefusal:
    """Return what NVIDIA's compiler made, and its hints, or what of it ends the trial."""
    if machine.differing:
        return CompileRefusal(_describe_differences(plan.kernel, machine), machine.log, machine.diagnostics)
    if machine.status is not Status.PASSED:
        told = (*machine.diagnostics, *collisions(machine.diagnostics, plan.kernel))
        return CompileRefusal(StageFailure(machine.status, machine.message), machine.log, told)
    resources = _resources(machine, plan.plans, device, keep)
    if symbols.find_external(machine.cubin) & symbols.HEAP:
        return CompileRefusal(_HEAP, machine.log, machine.diagnostics, resources)
    doubts, failure = _arguments(plan, resources.kernels)
    reads = find_machine_reads(machine.sass, plan.kernel.numerics.reads)
    hints = (*machine.diagnostics, *doubts, *(read for read in reads if read.severity == "warning"))
    if undeclared := tuple(read for read in reads if read.severity == "error"):
        return CompileRefusal(StageFailure(Status.REJECTED, undeclared[0].message, undeclared), machine.log, hints)
    failure = failure or _find_launch_failure(plan.plans, machine, device)
    return CompileRefusal(failure, machine.log, hints, resources) if failure else (resources, hints)


def check_arguments_of(plan: PlannedKernel, machine: CompileResult) -> CompileRefusal | None:
    """Return what ends the trial of arguments of this plan, whose kernels were compiled with other parameters."""
    failure = _arguments(plan, machine.kernels)[1]
    return CompileRefusal(failure, machine.log, machine.diagnostics) if failure else None


def may_run(plan: PlannedKernel, code: CompileResult, device: Device) -> bool:
    """Tell, before the machine code is disassembled, that no check of it will refuse the kernel."""
    if code.status is not Status.PASSED or code.differing or names_machine(code.cubin):
        return False
    if symbols.find_external(code.cubin) & symbols.HEAP:
        return False
    return not (_arguments(plan, code.kernels)[1] or _find_launch_failure(plan.plans, code, device))


def _describe_differences(kernel: KernelFile, machine: CompileResult) -> StageFailure:
    """Name the macros that the GPU's and the emulator's compiler read differently, each with its line."""
    lines = read_names(kernel).lines
    found = tuple(
        Diagnostic(lines.get(n, 0), "error", _difference(n), "macros")
        for n in sorted(machine.differing, key=lambda n: (lines.get(n, 1 << 30), n))
    )
    return StageFailure(Status.REJECTED, found[0].message, found)


def _difference(name: str) -> str:
    if name == SUPPRESSED:
        return "the file switches off warnings of the compiler that show whether both compilers read the same code"
    if not name.isascii():
        return f"'{name}' has letters that NVRTC knows in no name: use those of ASCII"
    return (
        f"'{name}' is a macro of the compilers or their headers, and the GPU's and the emulator's differ: the kernel "
        "that is tested here would not be the one that runs there. Use another name, or write what is meant"
    )


def _arguments(
    planned: PlannedKernel, kernels: Sequence[KernelResources]
) -> tuple[tuple[Diagnostic, ...], StageFailure | None]:
    """Return the doubts about the arguments of all workloads, each once, and the first workload's errors."""
    doubts: dict[Diagnostic, None] = {}
    restricted = find_restricted(planned.kernel)
    for name, plan in planned.plans.items():
        found = (*check_arguments(plan, kernels), *check_restricted(plan, restricted))
        errors = tuple(d for d in found if d.severity == "error")
        if errors:
            return tuple(doubts), StageFailure(Status.LAUNCH_ERROR, f"{errors[0].message} (workload {name})", errors)
        doubts |= dict.fromkeys(found)
    return tuple(doubts), None


def _find_launch_failure(
    plans: Mapping[str, LaunchPlan], machine: CompileResult, device: Device
) -> StageFailure | None:
    """Return the first workload's launches that the device's driver would refuse."""
    kernels = {k.kernel: k for k in machine.kernels}
    by_mangled = read_launch_bounds(machine.cubin)
    bounds = {name: by_mangled[mangled] for name, mangled in (machine.lowered or {}).items()}
    for name, plan in plans.items():
        if errors := find_launch_errors(plan, kernels, bounds, device):
            return StageFailure(Status.LAUNCH_ERROR, f"{errors[0].message} (workload {name})", errors)
    return None


def _resources(
    machine: CompileResult, plans: Mapping[str, LaunchPlan], device: Device, keep: Callable[[str | bytes], str]
) -> Resources:
    return Resources(
        arch=device.arch,
        kernels=machine.kernels,
        occupancy=tuple(_occupancy(machine, plans, device)),
        cubin=keep(machine.cubin),
        sass=keep(machine.sass),
        compile_seconds=machine.seconds,
        cached=machine.cached,
    )


def _occupancy(machine: CompileResult, plans: Mapping[str, LaunchPlan], device: Device) -> list[Occupancy]:
    kernels = {k.kernel: k for k in machine.kernels}
    return [
        compute_occupancy(launch, kernels[launch.kernel], device, name)
        for name, plan in plans.items()
        for launch in plan.launches
        if launch.kernel in kernels
    ]
