"""Write sections as plain text, for prompts and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cutegen_core.records.evidence import Remark, Section, Tone


def text(sections: Iterable[Section], source: str = "") -> str:
    """Write every section: its title, its sentences, its table as a list, the notes indented.

    Args:
        source: of the kernel file, to quote the lines that remarks are about; without it they are only numbered.
    """
    code = source.splitlines()
    return "\n".join(line for section in sections for line in _section(section, code))


def _section(section: Section, code: list[str]) -> Iterator[str]:
    yield f"{section.title}:"
    for remark in section.remarks:
        yield from written(remark, code)


def written(remark: Remark, code: list[str]) -> Iterator[str]:
    """Write a remark, the line of the kernel file that it is about, and its notes."""
    yield f"{'- ' if remark.cells else ''}{_prefix(remark)}{remark.text}"
    if 0 < remark.at <= len(code):
        yield f"    {remark.at} | {code[remark.at - 1].strip()}"
    yield from (f"    {note}" for note in remark.notes)


def _prefix(remark: Remark) -> str:
    return "pattern: " if remark.tone is Tone.PATTERN else ""
