"""Place the compiler's and the checker's messages at the lines of a kernel, also in a text edited from it."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records.trial import Trial

_EDITED = " (the line was edited since)"


class LineMark(NamedTuple):
    """A message at a line, from 1; `severity` is "error", "warning" or "info"."""

    line: int
    severity: str
    tool: str
    text: str


def marks_of(trial: Trial | None) -> tuple[LineMark, ...]:
    """List a trial's messages by line, each once."""
    if trial is None:
        return ()
    found = [
        LineMark(said.line, _severity(said.severity), said.tool, show_hidden(said.message))
        for said in trial.diagnostics
        if said.line
    ]
    for verdict in trial.correctness.verdicts if trial.correctness else ():
        found += [
            LineMark(said.line, "error", "checker", show_hidden(f"{said.kind}: {said.message}"))
            for said in verdict.findings
            if said.line
        ]
    return tuple(sorted(dict.fromkeys(found), key=lambda mark: mark.line))


def _severity(word: str) -> str:
    return word if word in ("error", "warning") else "info"


def moved(marks: tuple[LineMark, ...], base: str, text: str) -> tuple[LineMark, ...]:
    """Move the marks of `base` to the lines of `text`; a mark at a changed or removed line says so."""
    if not marks or base == text:
        return marks
    places: dict[int, tuple[int, bool]] = {}
    old, new = base.split("\n"), text.split("\n")
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for line in range(old_from, old_to):
            place = new_from + line - old_from
            places[line + 1] = (place if tag == "equal" else max(0, min(place, new_to - 1))) + 1, tag != "equal"
    return tuple(_placed(mark, places.get(mark.line, (mark.line, False))) for mark in marks)


def _placed(mark: LineMark, place: tuple[int, bool]) -> LineMark:
    line, edited = place
    return mark._replace(line=line, text=mark.text + (_EDITED if edited else ""))
