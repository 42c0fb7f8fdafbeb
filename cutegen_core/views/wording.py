"""Phrases that several pages share."""

from __future__ import annotations

from cutegen_core.records.wording import counted

SANDBOXED = "without network access or keys"
KEEP_MINE, USE_OTHER = "Keep my version", "Use the other version"
ERROR_MULTIPLE = "x reference error"
"""The heading over `error_multiple` of a tolerance."""


def no_step(session: str, wanted: object, steps: int) -> str:
    """Say that a session has no such step."""
    return f"Session {session} has no step “{wanted}”; it has {counted(steps, 'step')}."
