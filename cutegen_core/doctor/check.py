"""Define the result of one system check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """OK: works; WARNING: works with restrictions; MISSING: something will fail."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class SystemCheck:
    """The result of one check.

    Attributes:
        detail: what was found, with numbers.
        fix: the command or step that repairs it, "" if nothing is wrong.
    """

    name: str
    state: CheckState
    detail: str
    fix: str = ""
