"""A layout or a partition as numbers, as CuTe itself evaluated it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayoutTable:
    """A layout at every coordinate.

    Attributes:
        rows, cols: extent of the first mode, and of all others together.
        offsets: in elements, of coordinate (i, j) at index i + rows * j.
    """

    rows: int
    cols: int
    offsets: tuple[int, ...]

    def offset(self, row: int, col: int) -> int:
        return self.offsets[row + self.rows * col]


@dataclass(frozen=True)
class Partition:
    """Which thread holds which element of a tile.

    Attributes:
        operand: "A", "B", "C" of a tiled MMA, "source" or "destination" of a tiled copy.
        owners: (thread, value) pairs of element (i, j) at index i + rows * j; several where it is held several times.
    """

    operand: str
    rows: int
    cols: int
    threads: int
    values: int
    owners: tuple[tuple[tuple[int, int], ...], ...]


Picture = LayoutTable | Partition
