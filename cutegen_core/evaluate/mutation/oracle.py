"""Decide whether a mutant that passed computes something else than the original.

The oracle is a wider examination of its own: another seed, many kinds of values (`wide_values.txt`), and each size at
the problem's own value while the others stay small, up to a limit of memory; it is halved where the original has more
threads there than the emulator runs in some seconds. Only a workload that the original passes counts, so a mutant that
fails there is different where the reference defines a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.full_sizes import MOST_WAITING_THREADS, count_threads
from cutegen_core.judge import problem_source
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError, ProblemError
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
_SIZES_EACH = 2
_MOST_THREADS = 8 * MOST_WAITING_THREADS
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


class Oracle:
    """Examination of the mutants of one kernel file.

    Args:
        evaluator: the judge's, whose tools the oracle uses.
        reference: of the problem that `widen` returns.
        original: the kernel file's text.
        seed: differs from the judge's.
    """

    def __init__(self, evaluator: Evaluator, reference: Reference, original: str, seed: int) -> None:
        self._evaluator = replace(evaluator, reference=reference)
        self._original = original
        self._seed = seed
        found = _find_workloads(evaluator.problem, reference, self._count_threads)
        self._workloads = tuple(w for w in found if self._count_threads(w) is not None)
        self._passed_by_original: set[str] = set()

    def find_difference(self, source: str) -> Proof | None:
        """Return a proof that the mutant differs from the original, None if none was found.

        A workload at which the original fails, too, is left out from then on.
        """
        while self._workloads:
            proof = self._find_failure(source, self._workloads)
            if proof is None:
                return None
            if proof.status in RAN_WRONG and self._is_passed_by_original(proof.workload):
                return proof
            if not proof.workload:
                return None
            self._workloads = tuple(w for w in self._workloads if w.name != proof.workload)
        return None

    def _is_passed_by_original(self, name: str) -> bool:
        """Tell whether the original passes that workload; all of them where the mutant did not get so far as to run."""
        chosen = tuple(w for w in self._workloads if name in ("", w.name))
        if name not in self._passed_by_original and self._find_failure(self._original, chosen) is None:
            self._passed_by_original.add(name)
        return name in self._passed_by_original

    def _count_threads(self, workload: Workload) -> int | None:
        """Return how many threads the original has at the workload; None if its plan does not fit."""
        signature, device = self._evaluator.reference.signature(workload), self._evaluator.device
        try:
            return count_threads(parse(self._original).plan(signature, device, workload=workload.name))
        except KernelFileError:
            return None

    def _find_failure(self, source: str, workloads: tuple[Workload, ...]) -> Proof | None:
        problem = replace(self._evaluator.reference.problem, workloads=workloads)
        evaluator = replace(self._evaluator, problem=problem)
        trial = evaluator.evaluate(Candidate(source, Author.PERSON), seed=self._seed, rough=True)
        failed = trial.correctness.first_failure if trial.correctness else None
        if trial.passed:
            return None
        return Proof(failed.workload if failed else "", trial.status, trial.message)


def widen(problem: Problem) -> Problem:
    """Return the problem with the oracle's values to choose from, and no workloads."""
    return replace(problem, source=f"{problem.source}\n\n{_WIDE_VALUES}", workloads=())


def _find_workloads(
    problem: Problem, reference: Reference, threads: Callable[[Workload], int | None]
) -> Iterator[Workload]:
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
        largest = sorted(bearable, key=lambda w: _nbytes(reference, w))[-_SIZES_EACH:]
        yield from (_halve(workload, name, threads) for workload in largest)


def _halve(workload: Workload, name: str, threads: Callable[[Workload], int | None]) -> Workload:
    """Return the workload with this size halved until the emulator affords its threads."""
    value = workload.sizes[name]
    while isinstance(value, int) and value > 1 and (threads(workload) or 0) > _MOST_THREADS:
        value //= 2
        told = f"{workload.name.rpartition(' = ')[0]} = {value}"
        workload = replace(workload, name=told, sizes={**workload.sizes, name: value})
    return workload


def _nbytes(reference: Reference, workload: Workload) -> int:
    """Return the bytes of a workload's tensors; 0 if the reference has no such sizes."""
    try:
        return reference.signature(workload).nbytes
    except ProblemError:
        return 0
