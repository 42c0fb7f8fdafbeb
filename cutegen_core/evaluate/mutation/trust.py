"""Decide whether a suite of tests is trusted: the existing kernel passes it, and wrong versions of that kernel fail it.

1. The existing kernel is tried on the suite's workloads; where it fails, the suite is wrong, or the kernel is.
2. Mutants of it are tried, kinds in turns, until enough of them are proved different (`study`).
3. The suite is trusted if it catches every one of these. A survivor is evidence for whoever writes the next suite.

The sample, its order and the seed are functions of the kernel and the problem, so a check that was killed goes on where
it was, with the rows that were kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from cutegen_core.evaluate.mutation.mutants import Mutant, find_mutants
from cutegen_core.evaluate.mutation.study import FindDifference, MutantOutcome, MutantRow, MutationTable, try_mutant
from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.variant import StopOnlyWatch
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.event import SuiteFault
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import counted

_DIFFERENT = (MutantOutcome.CAUGHT, MutantOutcome.SURVIVED)
_SHOWN = 5


class MutantSample(NamedTuple):
    """How many mutants are tried.

    Attributes:
        different: enough, once so many are proved different.
        tries: the most that are tried.
    """

    different: int = 30
    tries: int = 45


class SuiteJudges(NamedTuple):
    """What a check needs: an evaluator of the problem with the suite, and an oracle of its mutants."""

    evaluator: CandidateEvaluator
    find_difference: FindDifference
    sample: MutantSample = MutantSample()


class KeptRows(NamedTuple):
    """Rows of an earlier, killed check: `find` returns the row of a mutant's text or None, `keep` makes one durable."""

    find: Callable[[str], MutantRow | None]
    keep: Callable[[str, MutantRow], None]


@dataclass(frozen=True)
class SuiteCheck:
    """Result of a check.

    Attributes:
        existing: trial of the existing kernel.
        table: mutants tried; none if the existing kernel failed.
    """

    existing: Trial
    table: MutationTable

    @property
    def trusted(self) -> bool:
        """Whether the existing kernel passes, and some mutants were proved different, all of which are caught."""
        return self.existing.passed and self.table.score == 1.0

    @property
    def message(self) -> str:
        """What was found, with the evidence where the suite is not trusted."""
        if not self.existing.passed:
            correctness = self.existing.correctness
            failed = correctness.first_failure if correctness else None
            where = f" at workload {failed.workload!r}" if failed else ""
            return f"{SuiteFault.FAILS}{where}: {self.existing.status}: {self.existing.message}"
        survivors = [row for row in self.table.rows if row.outcome is MutantOutcome.SURVIVED]
        different = sum(row.outcome in _DIFFERENT for row in self.table.rows)
        if not different:
            return f"no mutant of the existing kernel could be proved different: {_others(self.table)}"
        if survivors:
            told = "; ".join(map(_survivor, survivors[:_SHOWN]))
            return f"{len(survivors)} of {counted(different, 'mutant')} of the existing kernel pass it: {told}"
        caught = f"the existing kernel passes it, and all {different} of its mutants that were proved different fail"
        return f"{caught} ({_others(self.table)})"


def check_suite(
    judges: SuiteJudges, existing: str, seed: int, watch: Watch, kept: KeptRows | None = None
) -> SuiteCheck:
    """Try the existing kernel and a sample of its mutants.

    Raises:
        StoppedError: the user stopped it; the rows so far are kept.
    """
    watch.say("the suite: the existing kernel")
    stops = StopOnlyWatch(watch)
    baseline = judges.evaluator.evaluate(Candidate(existing, Author.IMPORT), seed=seed, watch=stops, rough=True)
    rows: list[MutantRow] = []
    for mutant in choose_mutants(existing) if baseline.passed else ():
        different = sum(row.outcome in _DIFFERENT for row in rows)
        if different >= judges.sample.different or len(rows) >= judges.sample.tries:
            break
        caught = sum(row.outcome is MutantOutcome.CAUGHT for row in rows)
        watch.say(f"the suite: mutant {len(rows) + 1}, {mutant.name}; {caught} of {different} caught so far")
        found = kept.find(mutant.text) if kept else None
        if found is None:
            found = try_mutant(judges.evaluator, judges.find_difference, baseline, mutant, seed, watch)
            if kept:
                kept.keep(mutant.text, found)
        rows.append(found)
    return SuiteCheck(baseline, MutationTable(tuple(rows)))


def choose_mutants(text: str) -> Iterator[Mutant]:
    """Yield the mutants of a kernel file, kinds in turns; within a kind in an order that does not follow the lines."""
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(find_mutants(text), key=lambda mutant: content_key(mutant.name)):
        by_kind[mutant.kind].append(mutant)
    for turn in zip_longest(*(by_kind[kind] for kind in sorted(by_kind))):
        yield from (mutant for mutant in turn if mutant is not None)


def _others(table: MutationTable) -> str:
    """Count the mutants that say nothing."""
    outcomes = (MutantOutcome.NOT_PROVED, MutantOutcome.REFUSED, MutantOutcome.UNDECIDED)
    counts = [f"{table.count(outcome)} {outcome}" for outcome in outcomes if table.count(outcome)]
    return ", ".join(counts) or "no others were tried"


def _survivor(row: MutantRow) -> str:
    return f"line {row.line}: `{row.before}` -> `{row.after}` (it differs at {row.proof})"
