"""COMPILE: turn a planned kernel file into builds that an executor can run.

`compile_candidate` runs NVRTC for the target and the executor's own builds in parallel, and checks the plan's arguments
against the compiled kernels (`machine_checks`), so that a wrong count or type is found before anything runs on a GPU.
A file with defaults of the emulator's own is compiled with the GPU's: NVRTC reads it with the emulator's as well only
where these name other kernels, or to tell whose fault it is that the emulator's build fails.
Tests begin as early as that allows: on a GPU while the machine code is disassembled, if nothing of it can be refused.
`compile_point` does the same for a point of a sweep, with no more builds than timing it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from cutegen_core.evaluate.stages.machine_checks import (
    CompileRefusal,
    check_arguments_of,
    check_machine_code,
    may_run,
)
from cutegen_core.evaluate.stages.planning import PlannedKernel, plan_candidate
from cutegen_core.evaluate.stages.tested_builds import EarlyBuilds, TestedBuilds
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.compiler.compilation import NO_PROBE, Compiler, CompileResult, OnCode
from cutegen_core.execute.compiler.machine_reads import blocks_communicate
from cutegen_core.execute.port import Built, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Diagnostic, Resources, Status


@dataclass(frozen=True)
class CompiledCandidate:
    """A candidate ready to run.

    Attributes:
        machine: result of NVIDIA's compiler, with the GPU's defaults.
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
        asked: Future[CompileResult] = pool.submit(_compile, plan.target, compiler, executor, device, code.set_result)
        asked.add_done_callback(partial(_pass_on, code))
        builds = [
            pool.submit(executor.build, plan.kernel, plan.params, code.result, checked=checked, arch=device.arch)
            for checked in (True, False)
        ]
        compile_here = partial(_compile, plan, compiler, executor, device)
        here = pool.submit(compile_here) if _has_own_instances(plan) else None
        # Nothing tells what the machine code of the emulator's own defaults would do.
        isolated = pool.submit(lambda: not (plan.on_gpu or blocks_communicate(asked.result().sass)))
        checked, plain = (build.result() for build in builds)
        if {checked.status, plain.status} == {Status.PASSED} and (
            not executor.needs_code or may_run(plan.target, code.result(), device)
        ):
            begin_tests(EarlyBuilds(plain, checked, isolated))
        machine = asked.result()
    failed = next((built for built in (checked, plain) if built.status is not Status.PASSED), None)
    machine_code = check_machine_code(plan.target, machine, device, keep)
    if isinstance(machine_code, CompileRefusal):
        return machine_code
    if plan.on_gpu:
        at_fault = failed is not None and failed.status is Status.COMPILE_ERROR
        made = here.result() if here else compile_here() if at_fault else None
        refused = check_machine_code(plan, made, device, keep) if made else check_arguments_of(plan, machine)
        if isinstance(refused, CompileRefusal):
            return refused
    resources, hints = machine_code
    hints = (*hints, *_untried(plan))
    if failed:
        return _refuse_build(failed, machine, resources, hints)
    plain = replace(plain, isolated_blocks=isolated.result())
    return CompiledCandidate(machine, resources, plain, checked, hints)


def _refuse_build(
    failed: Built, machine: CompileResult, resources: Resources, hints: tuple[Diagnostic, ...]
) -> CompileRefusal:
    """Say what became of the executor's own build: NVIDIA's compiler accepts the file, so its error is not the file's
    fault."""
    status = Status.UNSUPPORTED if failed.status is Status.COMPILE_ERROR else failed.status
    failure = StageFailure(status, failed.message, failed.diagnostics)
    return CompileRefusal(failure, f"{machine.log}\n{failed.log}", hints, resources)


def _has_own_instances(plan: PlannedKernel) -> bool:
    """Return whether the emulator's defaults name kernels which the GPU's do not."""
    return not set(plan.kernel.kernel_names()) <= set(plan.target.kernel.kernel_names())


def _pass_on(code: Future[CompileResult], asked: Future[CompileResult]) -> None:
    """Give the compiler's result to those that wait for its code, unless it has told them before."""
    if code.done():
        return
    error = asked.exception()
    if error:
        code.set_exception(error)
    else:
        code.set_result(asked.result())


def compile_point(
    plan: PlannedKernel, compiler: Compiler, executor: Executor, device: Device
) -> CompiledPoint | CompileRefusal:
    """Compile a point of a sweep, which is refused as a candidate is; threads may do several at a time.

    Raises:
        MachineError: a compiler failed, not the point.
    """
    plan = plan.target
    machine = _compile(plan, compiler, executor, device)
    machine_code = check_machine_code(plan, machine, device, lambda _: "")
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


def _untried(plan: PlannedKernel) -> tuple[Diagnostic, ...]:
    """Return a warning for each parameter whose value on a GPU is not the one that runs here."""
    apart = (p for p in plan.target.kernel.params if p.emulator is not None) if plan.on_gpu else ()
    text = "{0.name} = {0.emulator} runs here, the emulator's default; a GPU runs {0.default}, which was compiled only"
    return tuple(Diagnostic(p.line, "warning", text.format(p), "plan") for p in apart)


def _compile(
    plan: PlannedKernel, compiler: Compiler, executor: Executor, device: Device, on_code: OnCode = lambda _: None
) -> CompileResult:
    probe = executor.write_probe(plan.kernel, device.arch)
    return compiler.compile(plan.kernel, plan.params, probe or NO_PROBE, on_code)
