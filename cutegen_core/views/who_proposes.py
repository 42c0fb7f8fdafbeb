"""Ask the playbook before a session begins whether it knows a problem, and by what kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import choose_device
from cutegen_core.propose.playbook import NotInPlaybook, Target, menu
from cutegen_core.records.problem import Problem, WorkloadRole


class PlaybookAnswer(NamedTuple):
    """The names of the playbook's kernels; where it has none, `missing` says what it does not know."""

    kernels: tuple[str, ...]
    missing: str = ""


def ask_playbook(problem: Problem) -> PlaybookAnswer:
    """Return what the playbook offers for a problem, from a reference worker started for it; it takes seconds.

    Raises:
        ProblemError: the reference cannot be traced.
        MachineError: the worker could not run.
    """
    workload = next(iter(problem.with_role(WorkloadRole.BENCHMARK)), problem.workloads[0])
    with tempfile.TemporaryDirectory(prefix="cutegen-who-") as scratch, Reference(problem, Path(scratch)) as reference:
        signature, graph = reference.signature(workload), reference.graph(workload)
    target = Target(choose_device(), problem.allow)
    try:
        return PlaybookAnswer(tuple(name for name, _ in menu(graph, signature, target)))
    except NotInPlaybook as reason:
        return PlaybookAnswer((), str(reason))
