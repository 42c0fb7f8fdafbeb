"""Make the mutants of a kernel file: the same text with one small defect, as a programmer or a model makes it.

The list is a pure function of the text: its order, its names and its texts are the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from cutegen_core.evaluate.mutation.code import Code
from cutegen_core.evaluate.mutation.edit import Edit, Kind
from cutegen_core.evaluate.mutation.operators import OPERATOR_EDITS
from cutegen_core.evaluate.mutation.plan_edits import find_plan_edits
from cutegen_core.evaluate.mutation.statements import STATEMENT_EDITS
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.errors import KernelFileError

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Mutant:
    """A kernel file with one defect.

    Attributes:
        name: unique in its file: kind, line, number on the line ("barrier-41-1").
        line: 1-based line of the file.
        before, after: what was replaced, and by what; shortened.
        text: the whole file.
    """

    name: str
    kind: Kind
    line: int
    before: str
    after: str
    text: str


def find_mutants(text: str) -> tuple[Mutant, ...]:
    """Return the mutants of a kernel file, by place; each text once, and each a kernel file.

    Raises:
        KernelFileError: the text itself is not a kernel file.
    """
    kernel = parse(text)
    code = Code(kernel)
    # of two edits with the same result, the one that says more stays: a wait's number is a constant, too
    finders: tuple[Callable[[Code], Iterator[Edit]], ...] = (*STATEMENT_EDITS, *OPERATOR_EDITS)
    edits: dict[str, Edit] = {}
    for edit in chain(find_plan_edits(kernel), *(find(code) for find in finders)):
        edits.setdefault(kernel.text[: edit.start] + edit.after + kernel.text[edit.end :], edit)
    numbers: Counter[tuple[Kind, int]] = Counter()
    found = []
    for changed, edit in sorted(edits.items(), key=lambda pair: (pair[1].start, pair[1].kind, pair[0])):
        if changed == kernel.text or not _is_kernel_file(changed):
            continue
        line = kernel.text.count("\n", 0, edit.start) + 1
        numbers[edit.kind, line] += 1
        name = f"{edit.kind}-{line}-{numbers[edit.kind, line]}"
        found.append(
            Mutant(name, edit.kind, line, _shown(kernel.text[edit.start : edit.end]), _shown(edit.after), changed)
        )
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
