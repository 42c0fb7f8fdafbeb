"""Map instructions of a cubin to lines of the candidate, for tools that report addresses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from cutegen_core.execute.compiler.disassembly import disassemble
from cutegen_core.execute.compiler.machine_code import parse_machine_code


class SassLines:
    """The lines of one cubin, disassembled at the first query (about half a second)."""

    def __init__(self, cubin: Path) -> None:
        self._cubin = cubin

    def find_line(self, mangled: str, offset: int) -> int:
        """Return the line of the kernel file for the instruction `offset` bytes into a kernel, 0 if unknown.

        Code inlined from a header has the line at which it was inlined.
        """
        return self._lines.get((mangled, offset), 0)

    @cached_property
    def _lines(self) -> dict[tuple[str, int], int]:
        codes = parse_machine_code(disassemble(self._cubin.read_bytes()))
        return {(c.mangled, int(i.address, 16)): i.line for c in codes for i in c.instructions if i.address}
