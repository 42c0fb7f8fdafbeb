"""Mistakes that a model or a tired engineer makes: each is one edit of a right kernel.

`edits/NAME.txt` holds those of kernel NAME, a blank line between two:

    one column too many | reads the next row, or past the end
    - c < cols
    + c <= cols
    = MEMORY_ERROR INCORRECT_NUMERICAL

Name and story; the text that is replaced, which the kernel has once; what replaces it (no `+`: nothing); and the
verdicts that are right (no `=`: INCORRECT_NUMERICAL). A line `!` says why only a GPU can show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.right_kernels import RIGHT_KERNELS, RightKernel

EDITS = Path(__file__).parent / "edits"
_BEFORE_A_DEVICE = (Status.REJECTED, Status.COMPILE_ERROR)
_ON_A_GPU = (
    Status.INCORRECT_NUMERICAL, Status.MEMORY_ERROR, Status.NONDETERMINISTIC, Status.LAUNCH_ERROR,
    Status.RUNTIME_ERROR, Status.TIMEOUT, Status.SUSPECT,
)  # fmt: skip
"""There a defect of memory may show as what it does to the result."""


@dataclass(frozen=True)
class Mistake:
    """One edit of a right kernel.

    Attributes:
        edit: short name, unique within the kernel.
        story: what goes wrong and for which input, in one line.
        old, new: what is replaced, and by what.
        statuses: the verdicts that are right.
        gpu_only: why the emulator cannot show it, "" where it can.
    """

    kernel: RightKernel
    edit: str
    story: str
    old: str
    new: str
    statuses: tuple[Status, ...]
    gpu_only: str = ""

    @property
    def source(self) -> str:
        return self.kernel.source.replace(self.old, self.new)

    def case(self) -> Case:
        early = all(s in _BEFORE_A_DEVICE for s in self.statuses)
        on_gpu = self.statuses if early else tuple(dict.fromkeys((*self.statuses, *_ON_A_GPU)))
        name = f"{self.kernel.name}: {self.edit}"
        emulator = None if self.gpu_only else status(*self.statuses)
        return Case(name, self.story, self.kernel.problem, self.source, emulator, status(*on_gpu))


def _read(kernel: RightKernel) -> Iterator[Mistake]:
    file = EDITS / f"{kernel.name}.txt"
    entries = file.read_text().strip("\n").split("\n\n") if file.exists() else []
    return (_mistake(kernel, entry) for entry in entries)


def _mistake(kernel: RightKernel, entry: str) -> Mistake:
    title, *lines = entry.split("\n")
    name, _, story = title.partition(" | ")
    old, new, wanted = (_marked(lines, mark) for mark in "-+=")
    statuses = tuple(Status(word) for word in wanted.split()) or (Status.INCORRECT_NUMERICAL,)
    return Mistake(kernel, name, story, old, new, statuses, _marked(lines, "!"))


def _marked(lines: list[str], mark: str) -> str:
    return "\n".join(line[2:] for line in lines if line[:1] == mark)


MISTAKES: tuple[Mistake, ...] = tuple(m for kernel in RIGHT_KERNELS.values() for m in _read(kernel))
