"""Numbers and verdicts as the slides write them."""

from __future__ import annotations

from cutegen_core.candidate import Author
from cutegen_core.event import Outcome, SessionSettings
from cutegen_core.session_state import Step
from cutegen_core.trial import Status


def micros(us: float) -> str:
    """A time with four digits and the unit a person would choose."""
    return f"{us / 1000:.4g} ms" if us >= 1000 else f"{us:.4g} µs"


def ratio(value: float) -> str:
    """A speedup: 0.0256 -> "0.026x", 1.124 -> "1.12x", 45.79 -> "45.8x"."""
    return f"{value:.2g}x" if value < 0.1 else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def percent(fraction: float) -> str:
    """A small relative number, such as a noise: 0.006 -> "0.6 %"."""
    return f"{100 * fraction:.2g} %"


def lowered(word: object) -> str:
    """A status as a person writes it: "INCORRECT_NUMERICAL" -> "incorrect numerical"."""
    return str(word).replace("_", " ").lower()


def counted(number: int, thing: str) -> str:
    """ "1 step", "2 steps"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def mark(step: Step) -> str:
    """The shape beside a verdict."""
    if step.status is None:
        return "○" if step.outcome is None else "–"
    return "✓" if step.passed else "✗"


def verdict(step: Step) -> str:
    """What came of a step, in a word or two."""
    if step.status is None:
        return str(step.outcome) if step.outcome else "open"
    return "passed" if step.passed else lowered(step.status)


def became(step: Step) -> str:
    """What was done with a tested kernel, "" while that is open or goes without saying."""
    if step.outcome is None or step.status is None or step.outcome is Outcome.FAILED:
        return ""
    return "became the best" if step.outcome is Outcome.PROMOTED else str(step.outcome).removeprefix("passed, ")


def author(step: Step, settings: SessionSettings) -> str:
    """Who wrote a step's kernel."""
    names = {
        Author.MODEL: settings.model or "a model",
        Author.PERSON: "a person, by hand",
        Author.PLAYBOOK: "the playbook",
    }
    return names.get(step.author, str(step.author)) if step.author else ""


def shape_of(status: Status | None) -> str:
    """ "passed" or "failed", the two colours of a verdict; "open" before there is one."""
    return "open" if status is None else "passed" if status is Status.PASSED else "failed"
