"""What an export in the background is asked, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

KEPT_DAYS = 7
"""So long a finished file stays in the workspace."""


@dataclass(frozen=True)
class ExportSettings:
    """One file of a session.

    Attributes:
        seq: of the session's last event when it was asked for.
        format: a key of the table of formats.
        name: of the file.
    """

    session: str
    seq: int
    format: str
    name: str


@dataclass(frozen=True)
class ExportProgress:
    """What it does now, in a few words."""

    doing: str


@dataclass(frozen=True)
class ExportResult:
    """A file in the job's folder.

    Attributes:
        checked, note: whether its device code was compiled, and what was compiled or why not.
    """

    name: str
    checked: str
    note: str
    nbytes: int
