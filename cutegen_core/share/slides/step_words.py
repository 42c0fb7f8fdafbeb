"""Describe a step in a word or two."""

from __future__ import annotations

from cutegen_core.records.candidate import Author
from cutegen_core.records.event import Outcome, SessionSettings
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import lowered
from cutegen_core.trajectory.state import Step


def mark(step: Step) -> str:
    """Return the shape of a verdict."""
    if step.status is None:
        return "○" if step.outcome is None else "–"
    return "✓" if step.passed else "✗"


def verdict(step: Step) -> str:
    """Return a step's verdict in a word or two."""
    if step.status is None:
        return str(step.outcome) if step.outcome else "open"
    return "passed" if step.passed else lowered(step.status)


def became(step: Step) -> str:
    """Return what was done with a tested kernel, "" while that is open or obvious."""
    if step.outcome is None or step.status is None or step.outcome is Outcome.FAILED:
        return ""
    return "became the best" if step.outcome is Outcome.PROMOTED else str(step.outcome).removeprefix("passed, ")


def author(step: Step, settings: SessionSettings) -> str:
    """Return who wrote a step's kernel."""
    names = {
        Author.MODEL: settings.model or "a model",
        Author.PERSON: "a person, by hand",
        Author.PLAYBOOK: "the playbook",
    }
    return names.get(step.author, str(step.author)) if step.author else ""


def shape_of(status: Status | None) -> str:
    """Return "passed" or "failed", the two colours of a verdict; "open" before there is one."""
    return "open" if status is None else "passed" if status is Status.PASSED else "failed"
