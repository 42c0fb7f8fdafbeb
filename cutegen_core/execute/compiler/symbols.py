"""Find the functions that a cubin expects from the driver: those behind printf and assert, and the device heap."""

from __future__ import annotations

import io

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

HEAP = frozenset({"malloc", "free"})


def find_external(cubin: bytes) -> frozenset[str]:
    """Return the names of the functions that a cubin calls but does not contain."""
    table = ELFFile(io.BytesIO(cubin)).get_section_by_name(".symtab")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    return frozenset(s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name and not s.name.startswith("."))
