"""Write rows that teams of blocks keep whole: a kernel whose blocks stay for the whole launch, a row a team at a time.

While a cluster of the kernel for long rows waits for one of its blocks, or writes, it reads nothing, and what eight
blocks do not keep is read twice. A team has as many blocks as keep its row, and its next row is on its way while this
one is written. Its blocks wait for one another, so that all must be there at once: the launch is cooperative. Where
enough blocks are there, they keep the next row as well, and reduce that before they hear of this one, by when all has
been told. A row too long for that is kept alone: other teams use the memory while one waits.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.rows.folds import words_of
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.rows.team_launch import (
    NO_TEAM,
    add_most_teams,
    add_team_size,
    divide,
    few_rows_blocks,
    name_fits,
    name_teams,
)
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

_PER_SM = 2
"""Blocks of an SM: one reads or writes while the other one waits."""
_THREADS, _EACH, _FEWEST_THREADS = 512, 2, 256
_OTHERS = 4 << 10
"""Bytes of shared memory left to the reductions of a block, and to the system."""
_MOST_IDLE = 0.05
"""Share of the blocks that may be in no team, so that the others have whole chunks."""
_MOST_AHEAD, _TURNS = 3, 8
"""Rows that a block reduces ahead, at most; turns whose words share no memory. A block tells a turn when it has heard
the one so many before, which the others told when they had heard the one twice so many before."""


class Team(NamedTuple):
    """Blocks of a team, the vectors of each kept tensor that one has room for, rows that it reduces ahead; vectors that
    a thread has at a time."""

    blocks: int
    ring: int
    ahead: int
    each: int


def wanted_team(k: RowsKernel, rows: LongRows, target: Target) -> Team | None:
    """Return how rows are best shared on this device; None where not all of its blocks together keep one.

    Of the teams whose blocks have room for the next row as well, or else for one, it has the fewest blocks; of few rows
    more, so that none is idle.
    """
    if target.device is None or not rows.kept:
        return None
    most, vector = _PER_SM * target.device.sm_count, k.width * rows.bytes_kept
    ring = (target.smem_max // _PER_SM - _OTHERS) // (_FEWEST_THREADS * vector) * _FEWEST_THREADS
    others = max(map(len, rows.others))
    each = 1 if others > 1 or (others and k.width > 4) else _EACH  # so that registers do
    vectors, places = rows.length // k.width, ring // (_THREADS * each)
    chunks = ceil(vectors / (_THREADS * each))
    if places == 0 or chunks > most * places:
        return None
    ahead = int(chunks <= most * (places // 2))
    blocks = min(most, max(ceil(chunks / (places // (1 + ahead))), NO_TEAM + 1, few_rows_blocks(k, rows, most)))
    idle = most % blocks > most * _MOST_IDLE
    return Team(most // (most // blocks) if idle else blocks, ring, ahead, each)


class _Choices(NamedTuple):
    """What the parameters are called."""

    blocks: str
    ring: str
    ahead: str
    threads: str
    each: str
    teams: str


def add_teams(
    piece: RegionText, k: RowsKernel, rows: LongRows, team: Team, when: str, target: Target, *, chosen: bool
) -> str:
    """Add the kernel, and its launch for rows that teams keep; return the condition under which there are others.

    Args:
        when: the condition under which rows are long; none: they always are.
        chosen: whether teams have these rows unless the tuner finds otherwise.
    """
    p = _add_choices(piece, team, target, chosen=chosen)
    chunk = f"{p.threads} * {p.each}"
    chunks = f"ceil_div({k.cols} // {k.width}, {p.blocks} * {chunk})"
    smem = f"{p.ring} * {k.width * rows.bytes_kept}"
    room = f"sm_count * min({_PER_SM}, smem_max // ({smem} + {_OTHERS}))"
    enough = f"(1 + {p.ahead}) * {chunks} <= {p.ring} // ({p.threads} * {p.each})"
    teams = name_teams(k, p.blocks, p.teams, room)
    own, others = divide(when, name_fits(k, rows, p.blocks, enough, room))
    whole, mail = k.pass_number("whole", rows.whole, "bool"), k.naming.fresh("mail")
    name, k.name = k.name, f"{k.name}_teams"
    code, words = _render(k, rows, whole, mail)
    piece.add_code(code)
    piece.scratch.append(ScratchText(mail, "int64", (teams, str(_TURNS), str(words), p.blocks), zero=True))
    kernel = f"{k.name}<{p.threads}, {p.each}, {p.ring}, {p.blocks}, {p.ahead}>"
    grid, arguments = (f"{teams} * {p.blocks}",), (*k.arguments, mail)
    piece.launches.append(LaunchText(kernel, grid, (p.threads,), arguments, own, smem, cooperative=True))
    k.name = name
    return others


def _add_choices(piece: RegionText, team: Team, target: Target, *, chosen: bool) -> _Choices:
    first = len(piece.params)
    add_team_size(piece, team.blocks, _team_sizes(team, target), chosen=chosen)
    piece.param("RING", team.ring, team.ring, 2 * team.ring + _FEWEST_THREADS * _EACH)
    piece.param("TEAM_AHEAD", team.ahead, *range(_MOST_AHEAD + 1))
    piece.param("TEAM_THREADS", _THREADS, _FEWEST_THREADS, _THREADS)
    piece.param("TEAM_EACH", team.each, 1, 2, 4)
    add_most_teams(piece)
    names = _Choices(*(param.name for param in piece.params[first:]))
    piece.where.append(f"{names.threads} * {names.each} <= {names.ring} and {names.blocks} <= {names.threads}")
    return names


def _team_sizes(team: Team, target: Target) -> list[int]:
    """Return sizes to try: as many blocks as make somewhat fewer or more teams."""
    assert target.device is not None
    most = _PER_SM * target.device.sm_count
    return [most // max(1, most // team.blocks * n // 4) for n in (2, 3, 4, 5)]


def _render(k: RowsKernel, rows: LongRows, whole: str, mail: str) -> tuple[str, int]:
    """Return the kernel's text, and how many words a block tells the others of its team on a turn."""
    words, count = words_of(rows.folds)
    code = render(
        "rows_teams.cu.j2", k=k, long=rows, folds=rows.folds, others=rows.others, words=words, word_count=count,
        whole=whole, mail=mail, per_sm=_PER_SM, turns=_TURNS, has_roles=False, others_stay=False,
    )  # fmt: skip
    return code, count
