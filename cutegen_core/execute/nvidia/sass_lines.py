"""The candidate's lines behind the instructions of a cubin, for tools that speak of addresses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from cutegen_core.execute.compiler.disassembly import disassemble
from cutegen_core.execute.compiler.machine_code import parse_machine_code


class SassLines:
    """One cubin; disassembled when first asked (about half a second)."""

    def __init__(self, cubin: Path) -> None:
        self._cubin = cubin

    def find_line(self, mangled: str, offset: int) -> int:
        """The line of the kernel file that the instruction `offset` bytes into a kernel comes from, 0 when unknown: for
        inlined code of a header, the line it was inlined at."""
        return self._lines.get((mangled, offset), 0)

    @cached_property
    def _lines(self) -> dict[tuple[str, int], int]:
        codes = parse_machine_code(disassemble(self._cubin.read_bytes()))
        return {(c.mangled, int(i.address, 16)): i.line for c in codes for i in c.instructions if i.address}
