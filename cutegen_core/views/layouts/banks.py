"""Count the bank conflicts of a shared-memory layout by the rule of the hardware.

Shared memory has 32 banks of 4 bytes. A warp's access is served in phases of 128 bytes: all 32 threads together for up
to 4 bytes a thread, halves of the warp for 8, quarters for 16 (CUDA C++ Programming Guide, "Shared Memory"). In a phase
every bank serves one word; threads that want the same word share it. The conflict of a phase is the largest number of
different words that one bank has to serve: 1 is free, 8 takes eight times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from cutegen_core.records.errors import UsageError
from cutegen_core.views.layouts.pictures import LayoutTable

BANKS, BANK_BYTES, WARP = 32, 4, 32


class Pattern(StrEnum):
    """Which elements the threads of a warp access together."""

    ALONG_ROW = "along a row"
    DOWN_COLUMN = "down a column"


def bank(offset: int, itemsize: int) -> int:
    """Return the bank of an element at this offset (in elements)."""
    return offset * itemsize // BANK_BYTES % BANKS


def conflicts(table: LayoutTable, itemsize: int, width: int, pattern: Pattern) -> int:
    """Return the worst conflict over every warp access of the pattern.

    Args:
        itemsize: bytes of an element.
        width: elements a thread accesses at once, side by side in a row.
        pattern: ALONG_ROW: thread t takes the t-th group of `width` columns of a row, then of the next row;
            DOWN_COLUMN: thread t takes row t, all of them the same columns (as ldmatrix reads its rows).

    Raises:
        UsageError: no hardware access is that wide, or rows cannot be cut into groups of that width.
    """
    if width * itemsize not in (1, 2, 4, 8, 16):
        raise UsageError(f"{width} elements of {itemsize} bytes are no access: a thread takes 1, 2, 4, 8 or 16 bytes.")
    if table.cols % width:
        raise UsageError(f"rows of {table.cols} elements cannot be cut into groups of {width}.")
    groups = [(row, col) for row in range(table.rows) for col in range(0, table.cols, width)]
    if pattern is Pattern.DOWN_COLUMN:
        groups.sort(key=lambda group: (group[1], group[0]))
    threads = min(WARP, WARP * BANK_BYTES // (width * itemsize))
    phases = (groups[i : i + threads] for i in range(0, len(groups), threads))
    return max((_served(table, phase, itemsize, width) for phase in phases), default=1)


def _served(table: LayoutTable, phase: Sequence[tuple[int, int]], itemsize: int, width: int) -> int:
    words: dict[int, set[int]] = {}
    for row, col in phase:
        for element in range(col, col + width):
            word = table.offset(row, element) * itemsize // BANK_BYTES
            words.setdefault(word % BANKS, set()).add(word)
    return max(len(different) for different in words.values())
