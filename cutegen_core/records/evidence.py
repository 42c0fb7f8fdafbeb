"""Evidence of a trial: what its verdict rests on, as remarks without markup.

`evaluate.evidence` makes these records from a trial; prompts, slides, reports, the terminal and the pages show them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from cutegen_core.records.trial import Stage, Status


class Tone(StrEnum):
    """What a remark means for the reader; a writer chooses its shape and colour by it."""

    GOOD = "good"
    BAD = "bad"
    BETTER = "better"
    WORSE = "worse"
    DOUBTFUL = "doubtful"
    PATTERN = "pattern"
    """What all errors have in common."""
    PLAIN = "plain"
    ASIDE = "aside"
    """A condition or an explanation; it may be set small."""


class Topic(StrEnum):
    """What a section is about."""

    DIAGNOSTICS = "diagnostics"
    FINDINGS = "findings"
    OUTPUT = "output"
    RUN = "run"
    PROOF = "proof"
    MARKS = "marks"
    RUNS = "runs"
    RESOURCES = "resources"
    OCCUPANCY = "occupancy"
    SHAPES = "shapes"
    SPEED = "speed"
    TIMES = "times"
    SPEEDUPS = "speedups"
    CONDITIONS = "conditions"
    PROFILE = "profile"


@dataclass(frozen=True)
class Remark:
    """One line of evidence.

    Attributes:
        text: the whole remark; it needs no other one to be understood.
        at: the line of the kernel file that it is about, 0 for none.
        cells: the same facts under `Section.columns`, for a writer that draws a table; empty for a remark beside it.
        notes: context that a writer may fold away.
    """

    text: str
    tone: Tone = Tone.PLAIN
    at: int = 0
    cells: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Remarks on one topic.

    Attributes:
        subject: the workload, output or kernel that the section is about, "" for the whole candidate.
        columns: names of the cells; empty where no remark has cells.
        numbers_from: the first column that holds numbers.
    """

    topic: Topic
    title: str
    remarks: tuple[Remark, ...]
    subject: str = ""
    columns: tuple[str, ...] = ()
    numbers_from: int = 1

    @property
    def rows(self) -> tuple[Remark, ...]:
        """Return the remarks that have cells."""
        return tuple(remark for remark in self.remarks if remark.cells)

    @property
    def sentences(self) -> tuple[Remark, ...]:
        """Return the remarks beside the table."""
        return tuple(remark for remark in self.remarks if not remark.cells)

    @property
    def notes_column(self) -> int:
        """Return the column below whose text a table shows the notes of a row: the last one without numbers."""
        return min(len(self.columns), self.numbers_from) - 1

    def clipped(self, rows: int, notes: int = 0) -> Section:
        """Keep the first `rows` rows, with `notes` notes each, and say how many more rows there are.

        A row of each shape stays, however many there are: the last ones count as much as the first.
        """
        dropped = () if self.topic is Topic.SHAPES else self.rows[rows:]
        kept = (remark for remark in self.remarks if remark not in dropped)
        short = tuple(replace(remark, notes=remark.notes[:notes]) for remark in kept)
        more = (Remark(f"... and {len(dropped)} more", Tone.ASIDE),) if dropped else ()
        return replace(self, remarks=(*short, *more))


@dataclass(frozen=True)
class Evidence:
    """What a trial's verdict rests on.

    Attributes:
        stage: where it failed; None where it passed or no stage ran.
        message: the verdict in one line, "" when PASSED.
        cause: the sections that explain a failure, the most telling first; empty when PASSED.
        facts: all other sections: the proof of a kernel that passed, its cost and its speed.
    """

    status: Status
    stage: Stage | None
    message: str
    cause: tuple[Section, ...]
    facts: tuple[Section, ...]

    @property
    def headline(self) -> str:
        """Return the verdict in one line: "PASSED", or "COMPILE_ERROR at COMPILE: line 22: ..."."""
        where = f" at {self.stage}" if self.stage else ""
        return f"{self.status}{where}{f': {self.message}' if self.message else ''}"

    def sections(self, *topics: Topic) -> tuple[Section, ...]:
        """Return the sections on these topics, all of them without topics, in the order of the evidence."""
        return tuple(s for s in (*self.cause, *self.facts) if not topics or s.topic in topics)
