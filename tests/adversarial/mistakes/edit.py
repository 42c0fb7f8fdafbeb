"""One mistake: a named edit of a right kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.right_kernels import RIGHT_KERNELS, RightKernel

WRONG = Status.INCORRECT_NUMERICAL
MEMORY = Status.MEMORY_ERROR
CHANGES = Status.NONDETERMINISTIC
REFUSED = Status.REJECTED
COMPILER = Status.COMPILE_ERROR
LAUNCH = Status.LAUNCH_ERROR
STUCK = Status.TIMEOUT
TRAPPED = Status.RUNTIME_ERROR
_ON_A_GPU = (WRONG, MEMORY, CHANGES, LAUNCH, TRAPPED, STUCK, Status.SUSPECT, Status.INPUT_MODIFIED)
"""There a defect of memory may show as what it does to the result."""


@dataclass(frozen=True)
class Edit:
    """What is written instead of what.

    Attributes:
        name: short; unique within the kernel.
        story: what goes wrong and for which input, in one line.
        old: text that occurs exactly once in the kernel.
        statuses: the verdicts that are right.
    """

    name: str
    story: str
    old: str
    new: str
    statuses: tuple[Status, ...] = (WRONG,)


@dataclass(frozen=True)
class Mistake:
    """An edit of one right kernel."""

    kernel: RightKernel
    edit: Edit

    @property
    def name(self) -> str:
        return f"{self.kernel.name}: {self.edit.name}"

    @property
    def applies(self) -> bool:
        """Whether the edit has one place, and changes something there."""
        return self.kernel.source.count(self.edit.old) == 1 and self.edit.old != self.edit.new

    @property
    def source(self) -> str:
        return self.kernel.source.replace(self.edit.old, self.edit.new)

    def case(self) -> Case:
        statuses = self.edit.statuses
        early = all(s in (REFUSED, COMPILER) for s in statuses)
        on_gpu = status(*(statuses if early else dict.fromkeys((*statuses, *_ON_A_GPU))))
        return Case(self.name, self.edit.story, self.kernel.problem, self.source, status(*statuses), on_gpu)


def edit(name: str, story: str, old: str, new: str, *statuses: Status) -> Edit:
    """An edit whose result is wrong values, unless statuses are given."""
    return Edit(name, story, old, new, statuses or (WRONG,))


def of(kernel: str, *edits: Edit) -> Iterator[Mistake]:
    """Mistakes made in one right kernel."""
    return (Mistake(RIGHT_KERNELS[kernel], one) for one in edits)
