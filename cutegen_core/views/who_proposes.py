"""Ask the playbook before a session begins whether it knows a problem, and by what kernels."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.machine.device import choose_device
from cutegen_core.propose.playbook import Coverage, Target, cover
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, WorkloadRole


def ask_playbook(problem: Problem) -> Coverage:
    """Return what the playbook offers for a problem, from a reference worker started for it; it takes seconds.

    Raises:
        ProblemError: the reference cannot be traced.
        MachineError: the worker could not run.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-who-") as scratch, Reference(problem, Path(scratch)) as reference:
        return _covered(reference)


def ask_about_all(problems: Sequence[Problem]) -> Iterator[Coverage]:
    """Yield the same for each problem, all from one worker; a reference that cannot be traced says so in `missing`.

    Raises:
        MachineError: the worker could not run.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-who-") as scratch:
        worker = start_worker(Path(scratch))
        try:
            for problem in problems:
                try:
                    yield _covered(Reference(problem, Path(scratch) / problem.key, worker=worker))
                except ProblemError as error:
                    yield Coverage(missing=str(error))
        finally:
            worker.close()


def _covered(reference: Reference) -> Coverage:
    problem = reference.problem
    timed = problem.with_role(WorkloadRole.BENCHMARK) or problem.workloads[-1:]
    traced = [(reference.graph(w), reference.signature(w)) for w in problem.workloads if w not in timed]
    target = Target.of(choose_device(), problem)
    return cover(reference.graph(timed[-1]), reference.signature(timed[-1]), target, traced)
