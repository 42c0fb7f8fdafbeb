"""Map addresses of a compiled candidate to lines of the kernel file with its DWARF line tables.

CuTe consists of templates, so an address usually lies in a header's function that was inlined several levels deep. The
result is the kernel file's innermost line on the chain of inlined calls, then on those of the callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.lineprogram import LineState
from elftools.elf.elffile import ELFFile

from cutegen_core.kernel.kernel_file import PROGRAM_NAME


class Symboliser:
    """Line tables of one shared object; each query opens the file again, since a failing run makes only one."""

    def __init__(self, image: Path) -> None:
        self._image = image

    def find_line(self, frames: Iterable[int]) -> int:
        """Find the line of the kernel file for a chain of addresses; 0 if none of them lies in it.

        Args:
            frames: the innermost address, then return addresses.
        """
        addresses = [a for a in frames if a >= 0]
        with open(self._image, "rb") as file:
            elf = ELFFile(file)
            if not addresses or not elf.has_dwarf_info():
                return 0
            dwarf = elf.get_dwarf_info()
            for unit in dwarf.iter_CUs():
                tables = _Unit(dwarf, unit)
                for address in addresses:
                    # An address is a return address or the instruction's own; address - 1 lies in the right instruction
                    # or in the same line for both.
                    line = tables.find_line(address - 1) or tables.find_line(address)
                    if line:
                        return line
        return 0


class _Unit:
    """The line table and inlined calls of one compile unit."""

    def __init__(self, dwarf: DWARFInfo, unit: CompileUnit) -> None:
        self._unit = unit
        self._ranges: Any = dwarf.range_lists()
        program: Any = dwarf.line_program_for_CU(unit)
        self._rows: list[LineState] = [entry.state for entry in program.get_entries() if entry.state is not None]
        self._files = {
            number
            for number, entry in enumerate(program["file_entry"], 1)
            if entry.name.decode(errors="replace").endswith(PROGRAM_NAME)
        }

    def find_line(self, address: int) -> int:
        row = self._find_row(address)
        if row is None:
            return 0
        if row.file in self._files:
            return int(row.line) or self._nearest_line(row)
        return next((line for file, line in self._inlined_calls(address) if file in self._files), 0)

    def _find_row(self, address: int) -> LineState | None:
        for before, after in zip(self._rows, self._rows[1:], strict=False):
            if before.address <= address < after.address and not before.end_sequence:
                return before
        return None

    def _nearest_line(self, row: LineState) -> int:
        """Return the line next to an instruction that the compiler gave line 0: it merged or moved it."""
        at = self._rows.index(row)
        nearby = (reversed(self._rows[:at]), self._rows[at:])
        rows = chain.from_iterable(takewhile(lambda one: not one.end_sequence, some) for some in nearby)
        return next((int(one.line) for one in rows if one.line and one.file in self._files), 0)

    def _inlined_calls(self, address: int) -> Iterator[tuple[int, int]]:
        """Return (file, line) of the inlined calls around `address`, innermost first."""
        chain: list[tuple[int, int]] = []
        die = self._find_function(address)
        while die is not None:
            die = next((d for d in die.iter_children() if self._contains(d, address)), None)
            if die is not None and die.tag == "DW_TAG_inlined_subroutine":
                chain.append((die.attributes["DW_AT_call_file"].value, die.attributes["DW_AT_call_line"].value))
        return reversed(chain)

    def _find_function(self, address: int) -> DIE | None:
        for die in self._unit.get_top_DIE().iter_children():
            if die.tag == "DW_TAG_subprogram" and self._contains(die, address):
                return die
        return None

    def _contains(self, die: DIE, address: int) -> bool:
        attributes = die.attributes
        if "DW_AT_ranges" in attributes:
            base = self._unit.get_top_DIE().attributes.get("DW_AT_low_pc")
            start = base.value if base else 0
            entries = self._ranges.get_range_list_at_offset(attributes["DW_AT_ranges"].value)
            return any(start + e.begin_offset <= address < start + e.end_offset for e in entries)
        if "DW_AT_low_pc" not in attributes or "DW_AT_high_pc" not in attributes:
            return False
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        end = high.value if high.form == "DW_FORM_addr" else low + high.value
        return bool(low <= address < end)
