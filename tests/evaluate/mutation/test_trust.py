"""A suite is trusted when the existing kernel passes it and its mutants do not; real mutants, a scripted evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.evaluate.mutation.mutants import find_mutants
from cutegen_core.evaluate.mutation.oracle import Proof
from cutegen_core.evaluate.mutation.study import MutantRow
from cutegen_core.evaluate.mutation.trust import KeptRows, MutantSample, SuiteJudges, check_suite, choose_mutants
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.problems import library
from cutegen_core.records.candidate import Candidate
from cutegen_core.records.errors import StoppedError
from cutegen_core.records.trial import Status, Trial
from tests.session.scripted import ScriptedEvaluator

EXISTING = library.load("silu_and_mul").existing
ALL = MutantSample()
PROOF = Proof("values NaN", Status.INCORRECT_NUMERICAL, "it differs")


class Judge(ScriptedEvaluator):
    """Passes the existing kernel, and of its mutants those with a word of `blind` in their name's kind."""

    def __init__(self, *blind: str, fails: str = "") -> None:
        super().__init__(library.load("silu_and_mul"))
        self.kinds = {mutant.text: str(mutant.kind) for mutant in find_mutants(EXISTING)}
        self.blind, self.fails = blind, fails

    def evaluate(self, candidate: Candidate, **options: object) -> Trial:
        own = candidate.source == EXISTING
        status = self.fails if own else "" if self.kinds[candidate.source] in self.blind else "INCORRECT_NUMERICAL"
        said = f"{candidate.source}// status {status}\n" if status else candidate.source
        return super().evaluate(Candidate(said, candidate.author), **options)  # type: ignore[arg-type]


def check(judge: Judge, proof: Proof | None = PROOF, sample: MutantSample = ALL, **more: object):
    return check_suite(SuiteJudges(judge, lambda source: proof, sample), EXISTING, 7, SilentWatch(), **more)  # type: ignore[arg-type]


def test_all_kinds_of_mutants_are_in_the_sample_and_it_is_the_same_every_time() -> None:
    chosen = list(choose_mutants(EXISTING))
    kinds = {mutant.kind for mutant in chosen}
    assert {mutant.kind for mutant in chosen[: len(kinds)]} == kinds
    assert [m.name for m in chosen] == [m.name for m in choose_mutants(EXISTING)]
    assert len(chosen) == len(find_mutants(EXISTING))


def test_a_suite_that_catches_all_is_trusted() -> None:
    found = check(Judge())
    assert found.trusted
    assert len(found.table.rows) == 30
    assert found.message.startswith("the existing kernel passes it, and all 30 of its mutants")


def test_a_survivor_is_named_with_what_it_changes_and_how_it_differs() -> None:
    found = check(Judge("comparison", "condition"))
    assert not found.trusted
    assert "mutants of the existing kernel pass it: line " in found.message
    assert "(it differs at values NaN: INCORRECT_NUMERICAL: it differs)" in found.message
    assert found.message.count("it differs at") <= 5


def test_mutants_that_are_not_proved_different_count_neither_way() -> None:
    found = check(Judge("comparison"), proof=None)
    assert found.trusted
    blind = check(Judge(*(str(m.kind) for m in find_mutants(EXISTING))), proof=None)
    assert not blind.trusted
    assert blind.message.startswith("no mutant of the existing kernel could be proved different: ")


def test_a_suite_that_the_existing_kernel_fails_is_not_looked_at_further() -> None:
    judge = Judge(fails="INCORRECT_NUMERICAL")
    found = check(judge)
    assert (found.trusted, found.table.rows, len(judge.tried)) == (False, (), 1)
    assert found.message == "the existing kernel fails it at workload 'one': INCORRECT_NUMERICAL: as scripted"


def test_the_sample_is_bounded_both_ways() -> None:
    assert len(check(Judge(), sample=MutantSample(4, 9)).table.rows) == 4
    everything = tuple(str(m.kind) for m in find_mutants(EXISTING))
    assert len(check(Judge(*everything), proof=None, sample=MutantSample(4, 9)).table.rows) == 9


def test_a_check_that_was_killed_goes_on_with_the_rows_it_kept(tmp_path: Path) -> None:
    rows: dict[str, MutantRow] = {}

    def keep(text: str, row: MutantRow) -> None:
        rows[text] = row
        if len(rows) == 5:
            raise StoppedError("killed")

    judge = Judge()
    with pytest.raises(StoppedError):
        check(judge, kept=KeptRows(rows.get, keep))
    whole = check(judge, kept=KeptRows(rows.get, rows.__setitem__))
    assert whole.trusted
    mutants = [text for text in judge.tried if not text.startswith(EXISTING + "// status")]
    assert len(mutants) == len(set(mutants)) + 1, "the existing kernel alone is tried again"
