"""Decide whether a mutant that passed computes something else than the original.

The oracle is a wider examination of its own: another seed, many kinds of values (`wide_values.txt`), and each size at
the problem's own value while the others stay small, up to a limit of memory and time. It keeps the workloads that the
original passes, so a mutant that fails one of them is different where the reference defines a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.judge import problem_source
from cutegen_core.judge.reference import Reference
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from cutegen_core.records.trial import Status

_WIDE_VALUES = (Path(__file__).parent / "wide_values.txt").read_text()
_CHOICE = "ORACLE_VALUES"
_VALUES = (
    "as given",
    "all negative",
    "all positive",
    "negative mean",
    "positive mean",
    "many magnitudes",
    "times 30",
    "times 300",
    "huge",
    "subnormal",
    "constant rows",
    "near constant",
    "one dominant",
    "ascending",
    "descending",
    "zeros",
    "cancelling",
    "last column only",
    "first dimension's last only",
    "infinities",
    "NaN",
)
"""In the order of `wide_values.txt`; integers and bools take turns among reversed, all equal and sorted."""
_LARGEST_BYTES = 8 << 20
_LONGEST_S = 1.0
_SIZES_EACH = 2
RAN_WRONG = frozenset(
    {
        Status.LAUNCH_ERROR, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.MEMORY_ERROR, Status.INPUT_MODIFIED,
        Status.INCORRECT_SHAPE, Status.INCORRECT_DTYPE, Status.INCORRECT_NUMERICAL, Status.NONDETERMINISTIC,
        Status.SUSPECT,
    }
)  # fmt: skip
"""Verdicts that say what a kernel did, not that it could not be tried."""


class Proof(NamedTuple):
    """Where a mutant differs: the workload, and how."""

    workload: str
    status: Status
    message: str


@dataclass(frozen=True)
class Oracle:
    """Examination of the mutants of one kernel file.

    Attributes:
        evaluator: of the widened problem, with the workloads that the original passes.
    """

    evaluator: Evaluator
    seed: int

    def find_difference(self, source: str) -> Proof | None:
        """Return a proof that the mutant differs from the original, None if none was found."""
        trial = self.evaluator.evaluate(Candidate(source, Author.PERSON), seed=self.seed, rough=True)
        failed = trial.correctness.first_failure if trial.correctness else None
        if trial.status not in RAN_WRONG:
            return None
        return Proof(failed.workload if failed else "", trial.status, trial.message)


def widen(problem: Problem) -> Problem:
    """Return the problem with the oracle's values to choose from, and no workloads."""
    return replace(problem, source=f"{problem.source}\n\n{_WIDE_VALUES}", workloads=())


def make_oracle(evaluator: Evaluator, reference: Reference, original: str, seed: int) -> Oracle:
    """Return the oracle of a kernel file.

    Args:
        evaluator: the judge's, whose tools the oracle uses.
        reference: of the problem that `widen` returns.
        seed: differs from the judge's.
    """
    found = []
    for workload in _find_workloads(evaluator.problem, reference):
        one = replace(evaluator, problem=replace(reference.problem, workloads=(workload,)), reference=reference)
        trial = one.evaluate(Candidate(original, Author.PERSON), seed=seed, rough=True)
        if trial.passed and trial.correctness and max(v.seconds for v in trial.correctness.verdicts) <= _LONGEST_S:
            found.append(workload)
    problem = replace(reference.problem, workloads=tuple(found))
    return Oracle(replace(evaluator, problem=problem, reference=reference), seed)


def _find_workloads(problem: Problem, reference: Reference) -> Iterator[Workload]:
    """Yield what the reference can bear: every kind of values at a small size, and every size at its own value."""
    small = problem.with_role(WorkloadRole.EMULATOR, WorkloadRole.CORRECTNESS)
    given = [w for w in small if w.values is Values.GIVEN] or list(small)
    typical = max((w for w in given if w.role is WorkloadRole.EMULATOR), key=lambda w: _nbytes(reference, w))
    for kind, name in enumerate(_VALUES):
        yield Workload(f"values {name}", WorkloadRole.CORRECTNESS, {**typical.sizes, _CHOICE: kind})
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    own = {name: slots[name].value for name in typical.sizes if name in slots}
    for name, value in own.items():
        sizes = ((base.name, {**base.sizes, name: value}) for base in given)
        wide = [Workload(f"{base}, {name} = {value}", WorkloadRole.CORRECTNESS, found) for base, found in sizes]
        bearable = [w for w in wide if 0 < _nbytes(reference, w) <= _LARGEST_BYTES]
        yield from sorted(bearable, key=lambda w: _nbytes(reference, w))[-_SIZES_EACH:]


def _nbytes(reference: Reference, workload: Workload) -> int:
    """Return the bytes of a workload's tensors; 0 if the reference has no such sizes."""
    try:
        return reference.signature(workload).nbytes
    except ProblemError:
        return 0
