"""Write rows that teams of blocks keep whole: a kernel whose blocks stay for the whole launch, a row a team at a time.

While a cluster of the kernel for long rows waits for one of its blocks, or writes, it reads nothing, and what eight
blocks do not keep is read twice. A team has as many blocks as keep its row, and its next row is on its way while this
one is written. Its blocks wait for one another, so that all must be there at once: the launch is cooperative.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.rows.folds import folds_of
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

_PER_SM = 2
"""Blocks of an SM: one reads or writes while the other one waits."""
_THREADS, _EACH = 256, 2
_OTHERS = 4 << 10
"""Bytes of shared memory left to the reductions of a block, and to the system."""
_LEAST = 16 << 10
"""Bytes of a row that a block has at least, where rows are few."""
_FILLED = 3, 4
"""Share of a block's memory for its part of a row: the rest is for the next row, while the block waits."""
_LINE = 8
"""Vectors of which a share is a multiple, so that no two blocks write the same lines of memory."""
_EMULATED, _MOST_TEAMS = 2, 1024


class Team(NamedTuple):
    """Blocks of a team, and the vectors of each kept tensor that one has room for."""

    blocks: int
    ring: int


def wanted_team(k: RowsKernel, rows: LongRows, target: Target) -> Team | None:
    """Return how rows are best shared on this device; None where not all of its blocks together keep one."""
    vector = k.width * rows.bytes_kept
    copied = all(k.width * rows.size(t) in (4, 8, 16) for t in rows.kept)
    if target.device is None or not vector or not copied:
        return None
    chunk, most = _THREADS * _EACH, _PER_SM * target.device.sm_count
    ring = (target.smem_max // _PER_SM - _OTHERS) // (chunk * vector) * chunk
    row = prod(mode.extent.size for mode in k.region.reduced) * rows.bytes_kept
    if row > most * (ring - chunk) * vector:
        return None
    fewest = -(-row * _FILLED[1] // (ring * vector * _FILLED[0]))
    blocks = max(fewest, min(most // prod(mode.extent.size for mode in k.region.outer), row // _LEAST))
    return Team(most // (most // min(most, blocks)), ring)


def add_teams(piece: RegionText, k: RowsKernel, rows: LongRows, team: Team, when: str, target: Target) -> str:
    """Add the kernel, and its launch for rows that teams keep; return the condition under which there are others.

    Args:
        when: the condition under which rows are long; none: they always are.
    """
    vector, sizes = k.width * rows.bytes_kept, _team_sizes(team, target)
    blocks = piece.param("TEAM", team.blocks, *sizes, emulator=_EMULATED)
    ring = piece.param("RING", team.ring, team.ring, 2 * team.ring + _THREADS * _EACH)
    threads, each = piece.param("TEAM_THREADS", _THREADS, 256, 512), piece.param("TEAM_EACH", _EACH, 1, 2, 4)
    most = piece.param("TEAMS", _MOST_TEAMS, emulator=_EMULATED)
    smem = f"{ring} * {vector}"
    room = f"sm_count * min({_PER_SM}, smem_max // ({smem} + {_OTHERS}))"
    teams = k.naming.let("teams", f"max(1, min({k.rows}, {most}, {room} // {blocks}))")
    share = f"round_up(ceil_div({k.cols} // {k.width}, {blocks}), {_LINE})"
    kept = f"ceil_div({share}, {threads} * {each}) <= {ring} // ({threads} * {each})"
    fits = k.naming.let("fits", f"{kept} and {blocks} <= {room}")
    whole, mail = k.pass_number("whole", rows.whole, "bool"), k.naming.fresh("mail")
    numbers = {r.name: n for n, r in enumerate(r for one in k.statements.passes for r in one.reductions)}
    name, k.name = k.name, f"{k.name}_teams"
    piece.code = render(
        "rows_teams.cu.j2", k=k, long=rows, whole=whole, mail=mail, mail_parameter=f", long* {mail}",
        calls=len(numbers), numbers=numbers, per_sm=_PER_SM, line=_LINE, folds=list(folds_of(k.statements.passes, rows.walks)),
    )  # fmt: skip
    piece.scratch.append(ScratchText(mail, "int64", (teams, "2", str(len(numbers)), "2", blocks), zero=True))
    kernel, own = f"{k.name}<{threads}, {each}, {ring}, {blocks}>", f"{when} and {fits}" if when else fits
    grid = (f"{teams} * {blocks}",)
    piece.launches.append(
        LaunchText(kernel, grid, (threads,), (*k.arguments, mail), own, smem, cooperative=True)
    )  # fmt: skip
    k.name = name
    return f"{when} and not {fits}" if when else f"not {fits}"


def _team_sizes(team: Team, target: Target) -> list[int]:
    """Return sizes to try: as many blocks as make somewhat fewer or more teams; 1, which leaves all to clusters."""
    assert target.device is not None
    most = _PER_SM * target.device.sm_count
    teams = most // team.blocks
    counts = {max(1, teams * n // 4) for n in (2, 3, 4, 5)}
    return sorted({1, _EMULATED, team.blocks, *(most // n for n in counts)})
