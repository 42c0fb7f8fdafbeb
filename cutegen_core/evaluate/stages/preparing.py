"""PATCH and COMPILE: turn the text of a kernel file into builds that an executor can run, and list their resources.

1. `plan_candidate` parses and screens the file, and resolves its launch plan for every workload.
2. `compile_candidate` runs NVRTC for the target and the executor's own builds in parallel, and checks the plan's
   arguments against the compiled kernels, so that a wrong count or type is found before anything runs on a GPU. Tests
   begin as early as that allows: on a GPU while the machine code is disassembled, if nothing of it can be refused.
   `compile_point` does the same for a point of a sweep, with no more builds than timing it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from cutegen_core.evaluate.stages.tested_builds import EarlyBuilds, TestedBuilds
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.compiler import symbols
from cutegen_core.execute.compiler.collisions import collisions
from cutegen_core.execute.compiler.compilation import NO_PROBE, Compiler, CompileResult, OnCode
from cutegen_core.execute.compiler.launch_bounds import read_launch_bounds
from cutegen_core.execute.compiler.launch_limits import find_launch_errors
from cutegen_core.execute.compiler.machine_reads import blocks_communicate, find_machine_reads, names_machine
from cutegen_core.execute.compiler.macro_probe import SUPPRESSED
from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.execute.port import Built, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.aliases import check_restricted, find_restricted
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.preprocessing import check_preprocessing, read_names
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import Diagnostic, ExecutorKind, KernelResources, Occupancy, Resources, Status

_HEAP_TEXT = (
    "the kernel uses the device heap (malloc, new), which outlives launches: results could be kept there and handed "
    "out later, and nobody can check its bounds; declare the memory as [[scratch]] instead"
)
_HEAP = StageFailure(Status.REJECTED, _HEAP_TEXT, (Diagnostic(0, "error", _HEAP_TEXT, "plan"),))


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


@dataclass(frozen=True)
class CompiledCandidate:
    """A candidate ready to run.

    Attributes:
        machine: result of NVIDIA's compiler.
        plain, checked: the executor's builds, without and with the detection of memory errors and races.
        hints: compiler messages and doubtful arguments; none of them ended the trial.
    """

    machine: CompileResult
    resources: Resources
    plain: Built
    checked: Built
    hints: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class CompiledPoint:
    """A point of a sweep, compiled; no build of it was tested.

    Attributes:
        built: what can be timed, None where the executor's times say nothing about speed.
    """

    planned: PlannedKernel
    resources: Resources
    built: Built | None


@dataclass(frozen=True)
class CompileRefusal:
    """A compilation that ended the trial, with the evidence to show."""

    failure: StageFailure
    log: str
    hints: tuple[Diagnostic, ...]
    resources: Resources | None = None


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


def compile_candidate(
    plan: PlannedKernel,
    compiler: Compiler,
    executor: Executor,
    device: Device,
    keep: Callable[[str | bytes], str],
    begin_tests: Callable[[TestedBuilds], None] = lambda _: None,
) -> CompiledCandidate | CompileRefusal:
    """Compile and build in parallel.

    Args:
        keep: stores cubin and SASS.
        begin_tests: called when the executor's builds have passed, before NVIDIA's compiler need have ended; if the
            executor runs what that makes, only once it is known that the kernel may run.

    Raises:
        MachineError: a compiler failed, not the candidate.
    """
    code: Future[CompileResult] = Future()
    with ThreadPoolExecutor(5) as pool:
        asked: Future[CompileResult] = pool.submit(_compile, plan, compiler, executor, device, code.set_result)
        asked.add_done_callback(partial(_pass_on, code))
        builds = [
            pool.submit(executor.build, plan.kernel, plan.params, code.result, checked=checked, arch=device.arch)
            for checked in (True, False)
        ]
        target = pool.submit(_compile, plan.on_gpu, compiler, executor, device) if plan.on_gpu else asked
        isolated = pool.submit(lambda: not blocks_communicate(asked.result().sass))
        checked, plain = (build.result() for build in builds)
        if {checked.status, plain.status} == {Status.PASSED} and (
            not executor.needs_code or _may_run(plan, code.result(), device)
        ):
            begin_tests(EarlyBuilds(plain, checked, isolated))
        machine = asked.result()
    machine_code = _check_machine_code(plan, machine, device, keep)
    if plan.on_gpu and not isinstance(machine_code, CompileRefusal):
        machine_code = _check_machine_code(plan.on_gpu, target.result(), device, keep)
    if isinstance(machine_code, CompileRefusal):
        return machine_code
    resources, hints = machine_code
    hints = (*hints, *_untried(plan))
    for built in (checked, plain):
        if built.status is not Status.PASSED:
            # NVIDIA's compiler accepts the file, so an error in the executor's own build is not the file's fault.
            status = Status.UNSUPPORTED if built.status is Status.COMPILE_ERROR else built.status
            failure = StageFailure(status, built.message, built.diagnostics)
            return CompileRefusal(failure, f"{machine.log}\n{built.log}", hints, resources)
    plain = replace(plain, isolated_blocks=isolated.result())
    return CompiledCandidate(machine, resources, plain, checked, hints)


def _pass_on(code: Future[CompileResult], asked: Future[CompileResult]) -> None:
    """Give the compiler's result to those that wait for its code, unless it has told them before."""
    if code.done():
        return
    error = asked.exception()
    if error:
        code.set_exception(error)
    else:
        code.set_result(asked.result())


def _may_run(plan: PlannedKernel, code: CompileResult, device: Device) -> bool:
    """Tell, before the machine code is disassembled, that no check of it will refuse the kernel."""
    if code.status is not Status.PASSED or code.differing or names_machine(code.cubin):
        return False
    if symbols.find_external(code.cubin) & symbols.HEAP:
        return False
    return not (_arguments(plan, code.kernels)[1] or _find_launch_failure(plan.plans, code, device))


def compile_point(
    plan: PlannedKernel, compiler: Compiler, executor: Executor, device: Device
) -> CompiledPoint | CompileRefusal:
    """Compile a point of a sweep, which is refused as a candidate is; threads may do several at a time.

    Raises:
        MachineError: a compiler failed, not the point.
    """
    plan = plan.target
    machine = _compile(plan, compiler, executor, device)
    machine_code = _check_machine_code(plan, machine, device, lambda _: "")
    if isinstance(machine_code, CompileRefusal):
        return machine_code
    resources, hints = machine_code
    if not executor.measures_speed:
        return CompiledPoint(plan, resources, None)
    built = executor.build(plan.kernel, plan.params, lambda: machine, checked=False, arch=device.arch)
    if built.status is not Status.PASSED:
        failure = StageFailure(built.status, built.message, built.diagnostics)
        return CompileRefusal(failure, built.log, hints, resources)
    return CompiledPoint(plan, resources, built)


def _untried(plan: PlannedKernel) -> tuple[Diagnostic, ...]:
    """Return a warning for each parameter whose value on a GPU is not the one that runs here."""
    apart = (p for p in plan.target.kernel.params if p.emulator is not None) if plan.on_gpu else ()
    text = "{0.name} = {0.emulator} runs here, the emulator's default; a GPU runs {0.default}, which was compiled only"
    return tuple(Diagnostic(p.line, "warning", text.format(p), "plan") for p in apart)


def _check_machine_code(
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


def _compile(
    plan: PlannedKernel, compiler: Compiler, executor: Executor, device: Device, on_code: OnCode = lambda _: None
) -> CompileResult:
    probe = executor.write_probe(plan.kernel, device.arch)
    return compiler.compile(plan.kernel, plan.params, probe or NO_PROBE, on_code)


def _describe_differences(kernel: KernelFile, machine: CompileResult) -> StageFailure:
    """Name the macros that the GPU's and the emulator's compiler read differently, each with its line."""
    lines = read_names(kernel).lines
    text = (
        "'{}' is a macro of the compilers or their headers, and the GPU's and the emulator's differ: the kernel that "
        "is tested here would not be the one that runs there. Use another name, or write what is meant"
    )
    hidden = "the file switches off warnings of the compiler that show whether both compilers read the same code"
    found = tuple(
        Diagnostic(lines.get(n, 0), "error", hidden if n == SUPPRESSED else text.replace("{}", n), "macros")
        for n in sorted(machine.differing, key=lambda n: (lines.get(n, 1 << 30), n))
    )
    return StageFailure(Status.REJECTED, found[0].message, found)


def rebuild_candidate(
    source: str, problem: Problem, reference: Reference, executor: Executor, compiler: Compiler, device: Device
) -> tuple[PlannedKernel, Built] | StageFailure:
    """Build a kernel that passed before, to run it once more; usually everything comes from caches.

    Returns a failure if the tools, the target or the problem have changed and it no longer builds.
    """
    plan = plan_candidate(source, problem, reference, device, executor.kind)
    if isinstance(plan, StageFailure):
        return plan
    built = executor.build(
        plan.kernel,
        plan.params,
        lambda: compiler.compile(plan.kernel, plan.params),
        checked=False,
        arch=device.arch,
    )
    if built.status is not Status.PASSED:
        return StageFailure(built.status, built.message, built.diagnostics)
    return plan, built


def _undeclared_numerics(kernel: KernelFile, problem: Problem) -> tuple[Diagnostic, ...]:
    """Return an error if the kernel declares relaxations that the problem does not allow."""
    extra = [name for name in kernel.numerics.allow if name not in problem.allow]
    message = f"[numerics] allow: the problem {problem.name} does not allow {', '.join(extra)}"
    return (Diagnostic(1, "error", message, "plan"),) if extra else ()


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
