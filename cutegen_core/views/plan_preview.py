"""Preview a launch plan before it is compiled: the launches of every workload, their waves and occupancy.

1. The reference tells the shapes of every workload (`signatures_of`; it takes seconds, once for a problem).
2. The plan is resolved for each of them by the rules of the PATCH stage; what these refuse is part of the answer.
3. Registers and static shared memory are those of an earlier compile. Without one, occupancy is an upper bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine.device import Device
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import Launch
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import KernelResources, Occupancy

Signatures = Mapping[str, Signature]
"""By workload."""


class PlannedLaunch(NamedTuple):
    """A launch of a workload; `compiled` holds the figures of the last compile, None if it never was."""

    occupancy: Occupancy
    compiled: KernelResources | None


class PlannedWorkload(NamedTuple):
    """A workload's launches, or why it has none; `line` is a line of the kernel file, 0 for all of it."""

    workload: str
    launches: tuple[PlannedLaunch, ...]
    refusal: str = ""
    line: int = 0


def signatures_of(problem: Problem) -> Signatures:
    """Return the shapes of every workload, from a reference worker started for it.

    Raises:
        ProblemError: the reference cannot tell.
        MachineError: the worker could not run.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-plan-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        return {workload.name: reference.signature(workload) for workload in problem.workloads}


def preview(
    kernel: KernelFile, signatures: Signatures, device: Device, compiled: Sequence[KernelResources]
) -> tuple[PlannedWorkload, ...]:
    """Return every workload, in the problem's order."""
    return tuple(_planned(kernel, name, signature, device, compiled) for name, signature in signatures.items())


def _planned(
    kernel: KernelFile, workload: str, signature: Signature, device: Device, compiled: Sequence[KernelResources]
) -> PlannedWorkload:
    try:
        plan = kernel.plan(signature, device, kernel.defaults())
    except KernelFileError as error:
        return PlannedWorkload(workload, (), str(error), error.line)
    return PlannedWorkload(workload, tuple(_launch(launch, workload, device, compiled) for launch in plan.launches))


def _launch(launch: Launch, workload: str, device: Device, compiled: Sequence[KernelResources]) -> PlannedLaunch:
    spent = _compiled(launch.kernel, compiled)
    known = spent or KernelResources(launch.kernel, "", 0, 0, 0, 0, 0)
    return PlannedLaunch(compute_occupancy(launch, known, device, workload), spent)


def _compiled(kernel: str, compiled: Sequence[KernelResources]) -> KernelResources | None:
    """Return the same instantiation, else the only one of that template."""
    same = [one for one in compiled if one.kernel == kernel]
    alike = [one for one in compiled if one.kernel.split("<")[0] == kernel.split("<")[0]]
    return same[0] if same else alike[0] if len(alike) == 1 else None
