"""What trials of kernels as a session has them begin with: problem files, an evaluator, a kernel, an unseen edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from secrets import randbits

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.problems import sets
from cutegen_core.propose import playbook
from cutegen_core.records.event import AnsweredBy, SessionCreated
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools


def open_evaluator(
    store: Store, tools: Tools, problem: Problem, executor: ExecutorKind, *, timed: bool = True
) -> Evaluator:
    """Start a session for a problem, and return its evaluator."""
    session = start.create(store, problem, answered_by=AnsweredBy.PERSON, executor=executor)
    created = store.events(session)[0].event
    assert isinstance(created, SessionCreated)
    return tools.evaluator(session, created.settings, timed=timed)


def playbook_kernel(evaluator: Evaluator, level: str = "") -> str:
    """Return the playbook's kernel of a level for the problem, or its last one: a real kernel of its class."""
    problem, reference = evaluator.problem, evaluator.reference
    workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
    target = playbook.Target.of(evaluator.device, problem)
    variants = playbook.propose(reference.graph(workload), reference.signature(workload), problem.name, target)
    return next(v.source for v in reversed(variants) if level in ("", v.name))


def edited(source: str) -> str:
    """Return the same kernel as a text that no cache knows."""
    return f"{source}\n__device__ int edit_{randbits(60)}() {{ return {randbits(20)}; }}\n"


def files_of(folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return a label and the path of each problem file of these folders; numbered ones in the order of their numbers.

    Raises:
        UsageError: no such folder, or nothing in it.
    """
    files = [Path(file).resolve() for folder in folders for file in sets.resolve(folder)]
    return [(f"{file.parent.name}/{file.stem}", str(file)) for file in files]
