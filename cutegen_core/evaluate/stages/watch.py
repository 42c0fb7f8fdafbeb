"""Interface to follow a trial while it runs, and the verdict by which a stage ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutegen_core.records.errors import StoppedError
from cutegen_core.records.trial import Diagnostic, Stage, StageResult, Status


class Watch(Protocol):
    """Follows a trial while it runs."""

    def started(self, stage: Stage) -> None: ...

    def ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None:
        """Show a short line under the running stage."""

    def stopped(self) -> bool:
        """Return True once the user wants the work abandoned; threads of one trial ask side by side."""


class SilentWatch:
    """Watch that shows nothing and never stops."""

    def started(self, stage: Stage) -> None: ...

    def ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None: ...

    def stopped(self) -> bool:
        return False


def raise_if_stopped(watch: Watch) -> None:
    """Raise StoppedError if the user wants the work abandoned; called wherever that is possible."""
    if watch.stopped():
        raise StoppedError("stopped by the person")


@dataclass(frozen=True)
class StageFailure:
    """Verdict that ends a trial early."""

    status: Status
    message: str
    diagnostics: tuple[Diagnostic, ...] = ()
