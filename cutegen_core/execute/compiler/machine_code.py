"""Parse SASS into rows: every instruction with its line of the kernel file.

The input is the text of `disassembly`: sections, labels, and before each group of instructions a line
`//## File "cute/algorithm/copy.hpp", line 59 inlined at "candidate.cu", line 45`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)(?: inlined at "[^"]*", line (\d+))?')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")
_LABEL = re.compile(r"^(\.?[\w.$]+):\s*$")
OWN_FILE = "candidate.cu"


class Instruction(NamedTuple):
    """One instruction, or a label (then `address` is "").

    Attributes:
        line: line of the kernel file, 0 if unknown.
        header: file and line of the header it was inlined from, "" if it is the kernel file's own.
    """

    address: str
    text: str
    line: int
    header: str = ""


class MachineCode(NamedTuple):
    """The instructions of one kernel; `mangled` is its name in the cubin."""

    mangled: str
    instructions: tuple[Instruction, ...]


@lru_cache(maxsize=16)
def parse_machine_code(sass: str) -> tuple[MachineCode, ...]:
    """Parse the kernels of a disassembly in its order, without the padding after each kernel's end."""
    kernels: list[tuple[str, list[Instruction]]] = []
    line, header = 0, ""
    for text in sass.splitlines():
        if section := _SECTION.match(text):
            kernels.append((section[1].strip('"'), []))
            line, header = 0, ""
        elif place := _PLACE.search(text):
            line, header = _read_place(place)
        elif kernels:
            kernels[-1][1].extend(_read_row(text, line, header))
    return tuple(MachineCode(name, tuple(_strip_padding(rows))) for name, rows in kernels if rows)


def _read_place(place: re.Match[str]) -> tuple[int, str]:
    file, line, inlined_at = place.groups()
    if file == OWN_FILE:
        return int(line), ""
    return int(inlined_at or 0), f"{file}:{line}"


def _read_row(text: str, line: int, header: str) -> Iterator[Instruction]:
    if found := _INSTRUCTION.match(text):
        yield Instruction(found[1], found[2], line, header)
    elif (label := _LABEL.match(text)) and label[1].startswith(".L_"):
        yield Instruction("", f"{label[1]}:", line)


def _strip_padding(rows: list[Instruction]) -> list[Instruction]:
    while rows and (not rows[-1].address or rows[-1].text.startswith("NOP")):
        rows.pop()
    return rows
