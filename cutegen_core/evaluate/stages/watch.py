"""Who follows a trial while it runs, and how a stage says that the trial is over."""

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
        """A short line under the running stage."""

    def stopped(self) -> bool:
        """True when the person wants the work abandoned."""


class Quiet:
    """Nobody is watching."""

    def started(self, stage: Stage) -> None: ...

    def ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None: ...

    def stopped(self) -> bool:
        return False


def pause(watch: Watch) -> None:
    """A point at which work can be abandoned; StoppedError when the person wants that."""
    if watch.stopped():
        raise StoppedError("stopped by the person")


@dataclass(frozen=True)
class Failure:
    """The verdict that ends a trial early."""

    status: Status
    message: str
    diagnostics: tuple[Diagnostic, ...] = ()
