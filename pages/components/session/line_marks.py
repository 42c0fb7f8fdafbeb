"""What the compiler and the checker said about the lines of a kernel, found again in a text edited from it."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records.trial import Trial

_EDITED = " (the line was edited since)"


class Mark(NamedTuple):
    """One message at one line, from 1; `severity` is "error", "warning" or "info"."""

    line: int
    severity: str
    tool: str
    text: str


def marks_of(trial: Trial | None) -> tuple[Mark, ...]:
    """By line; each message once."""
    if trial is None:
        return ()
    found = [
        Mark(said.line, _severity(said.severity), said.tool, show_hidden(said.message))
        for said in trial.diagnostics
        if said.line
    ]
    for verdict in trial.correctness.verdicts if trial.correctness else ():
        found += [
            Mark(said.line, "error", "checker", show_hidden(f"{said.kind}: {said.message}"))
            for said in verdict.findings
            if said.line
        ]
    return tuple(sorted(dict.fromkeys(found), key=lambda mark: mark.line))


def _severity(word: str) -> str:
    return word if word in ("error", "warning") else "info"


def moved(marks: tuple[Mark, ...], base: str, text: str) -> tuple[Mark, ...]:
    """The marks of `base` at the lines of `text`; a line that was changed or removed says so."""
    if not marks or base == text:
        return marks
    places: dict[int, tuple[int, bool]] = {}
    old, new = base.split("\n"), text.split("\n")
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for line in range(old_from, old_to):
            place = new_from + line - old_from
            places[line + 1] = (place if tag == "equal" else max(0, min(place, new_to - 1))) + 1, tag != "equal"
    return tuple(_placed(mark, places.get(mark.line, (mark.line, False))) for mark in marks)


def _placed(mark: Mark, place: tuple[int, bool]) -> Mark:
    line, edited = place
    return mark._replace(line=line, text=mark.text + (_EDITED if edited else ""))
