"""Make the mutants of a kernel file: the same text with one small defect, as a programmer or a model makes it.

The list is a pure function of the text: its order, its names and its texts are the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from cutegen_core.evaluate.mutation.code import LiveCode
from cutegen_core.evaluate.mutation.edit import Edit, MutantKind
from cutegen_core.evaluate.mutation.operators import OPERATOR_EDITS
from cutegen_core.evaluate.mutation.plan_edits import find_plan_edits
from cutegen_core.evaluate.mutation.statements import STATEMENT_EDITS
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.lines import line_finder
from cutegen_core.records.errors import KernelFileError

MOST_CHARACTERS = 1 << 16
_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Mutant:
    """A kernel file with one defect.

    Attributes:
        name: unique in its file: kind, line, number on the line ("barrier-41-1").
        line: 1-based line of the file.
        edit: what is replaced in `original`, the file's text.
    """

    name: str
    line: int
    edit: Edit
    original: str = field(repr=False)

    @property
    def kind(self) -> MutantKind:
        return self.edit.kind

    @property
    def before(self) -> str:
        """What was replaced, shortened."""
        return _shown(self.original[self.edit.start : self.edit.end])

    @property
    def after(self) -> str:
        """What stands there now, shortened."""
        return _shown(self.edit.after)

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return self.edit.apply(self.original)


def find_mutants(text: str) -> tuple[Mutant, ...]:
    """Return the mutants of a kernel file, by place; each text once, and each a kernel file.

    Raises:
        KernelFileError: the text is not a kernel file, or longer than MOST_CHARACTERS.
    """
    kernel = parse(text)
    if len(kernel.text) > MOST_CHARACTERS:
        raise KernelFileError(f"a file of at most {MOST_CHARACTERS >> 10} KiB is mutated", 1)
    code = LiveCode(kernel)
    # of two edits with the same result, the one that says more stays: a wait's number is a constant, too
    finders: tuple[Callable[[LiveCode], Iterator[Edit]], ...] = (*STATEMENT_EDITS, *OPERATOR_EDITS)
    edits: dict[tuple[int, int, str], Edit] = {}
    for edit in chain(find_plan_edits(kernel), *(find(code) for find in finders)):
        shortest = edit.shorten(kernel.text)
        if shortest.start < shortest.end or shortest.after:
            edits.setdefault((shortest.start, shortest.end, shortest.after), edit)
    plan_end = len(kernel.text) - len(kernel.body)
    line_of = line_finder(kernel.text)
    numbers: Counter[tuple[MutantKind, int]] = Counter()
    found = []
    for edit in sorted(edits.values(), key=lambda e: (e.start, e.kind, e.end, e.after)):
        if edit.start < plan_end and not _is_kernel_file(edit.apply(kernel.text)):
            continue
        line = line_of(edit.start)
        numbers[edit.kind, line] += 1
        found.append(Mutant(f"{edit.kind}-{line}-{numbers[edit.kind, line]}", line, edit, kernel.text))
    return tuple(found)


def _is_kernel_file(text: str) -> bool:
    try:
        parse(text)
    except KernelFileError:
        return False
    return True


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 3]}..."
