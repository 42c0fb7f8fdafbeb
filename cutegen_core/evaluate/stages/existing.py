"""Keep a problem's existing kernel ready to be timed beside its candidates."""

from __future__ import annotations

from collections.abc import Callable

from cutegen_core.evaluate.stages.timing import BuiltKernel
from cutegen_core.records.performance import Untimed


class ExistingKernel:
    """The kernel that a problem begins with: tested and built for the first trial that is timed, then kept."""

    def __init__(self) -> None:
        self._made: BuiltKernel | Untimed | None = None

    def prepare(self, make: Callable[[], BuiltKernel | Untimed]) -> BuiltKernel | Untimed:
        """Return the kernel, or why it is not timed; only the first call makes it."""
        if self._made is None:
            self._made = make()
        return self._made
