"""Take mutants through an evaluator, and count which of the different ones it catches.

1. The original must pass, at the same seed; otherwise a failure would say nothing about the mutant.
2. A mutant that fails where the original passes is different, and caught.
3. A mutant that passes goes to the oracle: proved different, it survived; otherwise it does not count. One whose
   machine code is the original's needs no oracle.
4. One that the plan or a compiler refuses never ran: it is counted apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cutegen_core.evaluate.mutation.edit import MutantKind
from cutegen_core.evaluate.mutation.mutants import Mutant
from cutegen_core.evaluate.mutation.oracle import RAN_WRONG, Proof
from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.watch import SilentWatch, Watch
from cutegen_core.evaluate.variant import StopOnlyWatch
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import UsageError
from cutegen_core.records.trial import Status, Trial

FindDifference = Callable[[str], Proof | None]
"""Function that returns a proof that a mutant differs from the original, or None (`oracle.Oracle.find_difference`)."""


class MutantOutcome(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    """It passed, and the oracle proved it different."""
    NOT_PROVED = "not proved different"
    REFUSED = "refused"
    """The plan, the screening or a compiler refused it; it never ran."""
    UNDECIDED = "undecided"
    """The executor cannot run it."""


@dataclass(frozen=True)
class MutantRow:
    """Result of one mutant.

    Attributes:
        name, kind, line, before, after: of the mutant.
        stage: that ended its trial, "" if it passed.
        workload: on which it was caught, "" if none of them ran.
        message: of its trial.
        proof: how the oracle tells it from the original, "" if it was not asked or found nothing.
    """

    name: str
    kind: str
    line: int
    before: str
    after: str
    outcome: MutantOutcome
    status: Status
    stage: str = ""
    workload: str = ""
    message: str = ""
    proof: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class MutationTable:
    """Results of all mutants of one kernel file."""

    rows: tuple[MutantRow, ...]

    def count(self, outcome: MutantOutcome) -> int:
        return sum(row.outcome is outcome for row in self.rows)

    @property
    def score(self) -> float | None:
        """Share of the mutants proved different that were caught; None if there are none."""
        caught, survived = self.count(MutantOutcome.CAUGHT), self.count(MutantOutcome.SURVIVED)
        return caught / (caught + survived) if caught + survived else None


def study(
    evaluator: CandidateEvaluator,
    find_difference: FindDifference,
    original: str,
    mutants: Sequence[Mutant],
    seed: int,
    watch: Watch,
) -> MutationTable:
    """Try the mutants of a kernel file, all on the same inputs.

    Raises:
        UsageError: the original itself does not pass.
        StoppedError: the user stopped it.
    """
    baseline = try_original(evaluator, original, seed, watch)
    rows = []
    for number, mutant in enumerate(mutants, 1):
        watch.say(f"mutant {number} of {len(mutants)}: {mutant.name}")
        rows.append(try_mutant(evaluator, find_difference, baseline, mutant, seed, watch))
    return MutationTable(tuple(rows))


def try_original(evaluator: CandidateEvaluator, original: str, seed: int, watch: Watch) -> Trial:
    """Return the original's trial; raise UsageError unless it passes: only then a mutant's failure says something."""
    trial = evaluator.evaluate(Candidate(original, Author.PERSON), seed=seed, watch=StopOnlyWatch(watch), rough=True)
    if not trial.passed:
        raise UsageError(f"the original does not pass, so its mutants say nothing: {trial.status}: {trial.message}")
    return trial


def try_mutant(
    evaluator: CandidateEvaluator,
    find_difference: FindDifference,
    baseline: Trial,
    mutant: Mutant,
    seed: int,
    watch: Watch | None = None,
) -> MutantRow:
    """Try one mutant of an original whose trial at this seed, `baseline`, passed."""
    begun = time.monotonic()
    stops = StopOnlyWatch(watch or SilentWatch())
    trial = evaluator.evaluate(Candidate(mutant.text, Author.PERSON), seed=seed, watch=stops, rough=True)
    proof = find_difference(mutant.text) if trial.passed and not _is_same_program(trial, baseline, mutant) else None
    failed = trial.correctness.first_failure if trial.correctness else None
    return MutantRow(
        mutant.name, mutant.kind, mutant.line, mutant.before, mutant.after, _outcome(trial, proof), trial.status,
        stage=str(trial.failed_stage or ""), workload=f"{failed.workload} ({failed.mode})" if failed else "",
        message=trial.message, proof=f"{proof.workload}: {proof.status}: {proof.message}" if proof else "",
        seconds=time.monotonic() - begun,
    )  # fmt: skip


def _outcome(trial: Trial, proof: Proof | None) -> MutantOutcome:
    if trial.passed:
        return MutantOutcome.SURVIVED if proof else MutantOutcome.NOT_PROVED
    if trial.status in RAN_WRONG:
        return MutantOutcome.CAUGHT
    return MutantOutcome.UNDECIDED if trial.status is Status.UNSUPPORTED else MutantOutcome.REFUSED


def _is_same_program(trial: Trial, baseline: Trial, mutant: Mutant) -> bool:
    """Tell whether only the text differs: the plan and the machine code are the original's."""
    if mutant.kind is MutantKind.LAUNCH or trial.resources is None or baseline.resources is None:
        return False
    return bool(trial.resources.sass) and trial.resources.sass == baseline.resources.sass
