"""PROFILE, on request: run the profiler on one run of a candidate, at the problem's own size if that fits."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from cutegen_core.evaluate.stages import preparing
from cutegen_core.evaluate.stages.planning import PlannedKernel
from cutegen_core.evaluate.stages.watch import StageFailure, Watch, raise_if_stopped
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.cuda import lock
from cutegen_core.execute.cuda.program import load_program
from cutegen_core.execute.cuda.standalone import write_spec
from cutegen_core.execute.nvidia import profiling
from cutegen_core.execute.port import Built, Executor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import Profile
from cutegen_core.records.problem import Problem, TensorSpec, Workload, WorkloadRole

LARGEST_BYTES = 2 << 30
"""Limit on the tensors of a profiled workload: inputs travel as files, and ncu replays each kernel about 30 times."""


def profile_candidate(
    source: str, problem: Problem, reference: Reference, executor: Executor, compiler: Compiler, device: Device,
    seed: int, watch: Watch,
) -> Profile:  # fmt: skip
    """Profile a kernel file that passed before.

    Raises:
        MachineError: there is no profiler, or it may not read the counters; the message says what to do.
        StoppedError: the user stopped it.
    """
    again = preparing.rebuild_candidate(source, problem, reference, executor, compiler, device)
    if isinstance(again, StageFailure):
        raise MachineError(f"the kernel cannot be profiled: {again.message}")
    planned, built = again
    workload = _workload(problem, reference)
    raise_if_stopped(watch)
    watch.say(f"Nsight Compute on workload {workload.name}")
    inputs = reference.write_inputs(workload, seed)
    try:
        with tempfile.TemporaryDirectory(prefix="cutegen-profile-") as folder:
            spec = _spec(Path(folder), built, planned, workload, reference, inputs, device)
            with lock.hold(device.uuid, f"profiling a kernel of {problem.name}"):
                return profiling.profile(spec, workload.name)
    finally:
        for path in inputs.values():
            path.unlink(missing_ok=True)


def _spec(
    folder: Path, built: Built, planned: PlannedKernel, workload: Workload, reference: Reference,
    inputs: Mapping[TensorSpec, Path], device: Device,
) -> Path:  # fmt: skip
    assert built.path is not None
    outputs = {spec.name: spec.nbytes for spec in reference.signature(workload).outputs}
    files = {spec.name: path for spec, path in inputs.items()}
    program = load_program(built, planned.plans[workload.name])
    write_spec(folder / "spec.json", built.path, program, files, outputs, uuid=device.uuid, poison=0xFF)
    return folder / "spec.json"


def _workload(problem: Problem, reference: Reference) -> Workload:
    """Return the problem's own size, or the largest workload that fits into LARGEST_BYTES."""
    own = problem.with_role(WorkloadRole.BENCHMARK)
    sizes = {w.name: sum(t.nbytes for t in reference.signature(w).tensors) for w in problem.workloads}
    fitting = [w for w in own if sizes[w.name] <= LARGEST_BYTES]
    others = [w for w in problem.workloads if sizes[w.name] <= LARGEST_BYTES]
    if not others:
        raise MachineError(f"every workload of {problem.name} is too large to be profiled")
    return fitting[0] if fitting else max(others, key=lambda w: sizes[w.name])
