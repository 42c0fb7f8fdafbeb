"""Say what kernels of teams of blocks have in common: how many blocks a team has, and which rows are theirs."""

from __future__ import annotations

from collections.abc import Collection

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.writing import RegionText

NO_TEAM = 1
"""Blocks of a team where clusters have all rows."""
_LEAST = 16 << 10
"""Bytes of a row that a block has at least, where rows are few."""
_EMULATED, _MOST_TEAMS = 2, 1024
"""Blocks of a team on the emulator, and teams; teams, at most."""
_FEWEST_ELEMENTS = 16
"""Of a row that a team keeps: with so few most blocks have nothing. Small workloads reach either kernel: both are
tested where the benchmark is not run."""


def few_rows_blocks(k: RowsKernel, rows: LongRows, most: int) -> int:
    """Return how many blocks a team has of `most` where rows are so few that some would be idle."""
    row_bytes = rows.length // k.width * k.width * rows.bytes_kept
    return min(most // k.region.rows, row_bytes // _LEAST)


def add_team_size(piece: RegionText, blocks: int, sizes: Collection[int], *, chosen: bool) -> str:
    """Add the blocks of a team, with other sizes to try, and return the parameter's name.

    Args:
        chosen: whether teams have these rows unless the tuner finds otherwise; else it may try teams of `blocks`.
    """
    if not chosen:
        return piece.param("TEAM", NO_TEAM, NO_TEAM, blocks)
    return piece.param("TEAM", blocks, *sorted({NO_TEAM, _EMULATED, blocks, *sizes}), emulator=_EMULATED)


def add_most_teams(piece: RegionText) -> str:
    """Add how many teams there are at most, and return the parameter's name."""
    return piece.param("TEAMS", _MOST_TEAMS, emulator=_EMULATED)


def name_teams(k: RowsKernel, blocks: str, most_teams: str, room: str) -> str:
    """Name the number of teams: as many as there is room for, and rows."""
    return k.naming.let("teams", f"max(1, min({k.rows}, {most_teams}, {room} // {blocks}))")


def name_fits(k: RowsKernel, rows: LongRows, blocks: str, enough: str, room: str) -> str:
    """Name the condition that a team keeps its row, where it is `enough`, and is there at once."""
    by_vectors = "" if rows.joined else f" and {rows.whole}"
    long = f"{k.cols} >= {_FEWEST_ELEMENTS}"
    return k.naming.let("fits", f"{blocks} > {NO_TEAM} and {long} and {enough} and {blocks} <= {room}{by_vectors}")


def divide(when: str, fits: str) -> tuple[str, str]:
    """Return the conditions of the rows that teams have, and of all others; `when`: of both, none if it is empty."""
    return (f"{when} and {fits}", f"{when} and not {fits}") if when else (fits, f"not {fits}")
