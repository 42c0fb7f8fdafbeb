"""Find the functions that a cubin expects from the driver: those behind printf and assert, and the device heap."""

from __future__ import annotations

import io
import struct

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

HEAP = frozenset({"malloc", "free"})
_SYMBOL = struct.Struct("<IBBHQQ")  # offset of its name, info, other, section, value, size
_UNDEFINED = 0


def find_external(cubin: bytes) -> frozenset[str]:
    """Return the names of the functions that a cubin calls but does not contain."""
    table = ELFFile(io.BytesIO(cubin)).get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return frozenset()
    # a cubin has a thousand symbols of its own, which the library would read one by one (30 ms)
    missing = (offset for offset, _, _, section, _, _ in _SYMBOL.iter_unpack(table.data()) if section == _UNDEFINED)
    names = (table.stringtable.get_string(offset) for offset in missing if offset)
    return frozenset(name for name in names if name and not name.startswith("."))
