"""One finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """OK: as it should be; WARNING: works with less; MISSING: something will fail."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing looked at.

    Attributes:
        detail: what was found, with numbers.
        fix: the command or the step that repairs it, "" when nothing needs to be done.
    """

    name: str
    state: State
    detail: str
    fix: str = ""
