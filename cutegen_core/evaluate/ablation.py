"""Measure the worth of each hunk of a change: try the change without the hunk, and the hunk alone.

With a GPU, each variant is timed in turns with the unchanged kernel, so a row shows how much of the gain its hunks
give. Without a GPU, the rows show whether a variant is right and which resources it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen_core.evaluate.port import CandidateEvaluator
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.variant import StopOnlyWatch, VariantResult, summarize_trial
from cutegen_core.kernel import hunks
from cutegen_core.kernel.hunks import Hunk
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import UsageError

MAX_HUNKS = 8


@dataclass(frozen=True)
class AblationRow:
    """Result of the change with only some of its hunks.

    Attributes:
        kept: numbers of the hunks, from 1; empty for the kernel before the change.
        spent: verdict, resources and, on a GPU, latency and the comparison with the kernel before the change.
    """

    kept: tuple[int, ...]
    spent: VariantResult


@dataclass(frozen=True)
class AblationTable:
    """Results of all variants: no hunk, all hunks, all but one, one alone.

    Attributes:
        titles: of the hunks, "line 38, +6 -1".
    """

    titles: tuple[str, ...]
    rows: tuple[AblationRow, ...]

    def row(self, *kept: int) -> AblationRow | None:
        """Return the row with these hunks, or None if it was not tried."""
        return next((row for row in self.rows if row.kept == kept), None)


def ablate(evaluator: CandidateEvaluator, before: str, after: str, seed: int, watch: Watch) -> AblationTable:
    """Try the variants of a change, at most twice its hunks plus two.

    Raises:
        UsageError: the change has fewer than two hunks, or more than MAX_HUNKS.
        StoppedError: the user stopped it.
    """
    pieces = hunks.split(before, after)
    if not 2 <= len(pieces) <= MAX_HUNKS:
        many = f"{len(pieces)} hunks, at most {MAX_HUNKS} are tried apart" if pieces[2:] else "fewer than two hunks"
        raise UsageError(f"the change has {many}")
    plain = Candidate(before, Author.PERSON)
    rows: list[AblationRow] = []
    variants = tuple(_variants(pieces))
    for number, kept in enumerate(variants, 1):
        watch.say(f"variant {number} of {len(variants)}: {_words(kept, len(pieces))}")
        variant = Candidate(hunks.apply(before, pieces, kept), Author.PERSON, plain.key)
        beside = plain if rows and rows[0].spent.latency_ms is not None else None
        trial = evaluator.evaluate(variant, seed=seed, watch=StopOnlyWatch(watch), best=beside, rough=True)
        rows.append(AblationRow(kept, summarize_trial(trial)))
    return AblationTable(tuple(piece.title for piece in pieces), tuple(rows))


def _variants(pieces: tuple[Hunk, ...]) -> Iterator[tuple[int, ...]]:
    """Yield no hunk, all hunks, all but one, one alone; each variant once."""
    numbers = tuple(piece.number for piece in pieces)
    wanted = [(), numbers, *(tuple(n for n in numbers if n != out) for out in numbers), *((n,) for n in numbers)]
    yield from dict.fromkeys(wanted)


def _words(kept: tuple[int, ...], total: int) -> str:
    if not kept:
        return "no hunk"
    return "all hunks" if len(kept) == total else f"hunk{'s' if len(kept) > 1 else ''} {', '.join(map(str, kept))}"
