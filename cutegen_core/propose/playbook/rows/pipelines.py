"""Write rows that teams of blocks keep whole, where the device copies by itself: each warp of a block has one role.

In the kernel of `teams` every thread reads, waits for the team and writes, one after the other, for each row. Here a
warp copies ahead by tensor maps, others reduce ahead, one tells the team, one hears it, and others write, so that a
row waits for nothing but its own team. All blocks of a team must be there at once: the launch is cooperative.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.rows.folds import words_of
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, TensorMapText, render

_READERS, _WRITERS = 256, 256
_CHUNK_BYTES, _FEWEST = 16 << 10, 256
"""Of a chunk, at most; vectors, at least."""
_OTHERS, _ALIGNED = 3 << 10, 128
"""Bytes of shared memory left to the barriers and to the reductions, and of which boxes lie at whole numbers."""
_LINE = 32
"""Vectors of which a share has a whole number: whole lines of the cache, for all kept tensors and results."""
_AHEAD = 4.5
"""Rows of which a block should have room for its share."""
_LEAST = 16 << 10
"""Bytes of a row that a block has at least, where rows are few."""
_BOX, _LEAST_SIZE, _MOST_ELEMENTS = 256, 4, 1 << 31
"""Elements of a box of a tensor map, the most there may be; the least bytes of one, since smaller boxes come too slowly
(on an H200 0.59 of the bandwidth of a copy for halves); and the elements that a box's place can count."""
_EMULATED, _MOST_TEAMS, _TURNS = 2, 1024, 64
"""Blocks of a team on the emulator, and teams; teams, at most; turns whose words share no memory."""
NO_TEAM = 1
"""Blocks of a team where clusters have all rows."""


class Pipeline(NamedTuple):
    """Blocks of a team; the vectors of each kept tensor in a chunk, and in all chunks that a block has room for."""

    blocks: int
    chunk: int
    ring: int


def wanted_pipeline(k: RowsKernel, rows: LongRows, target: Target) -> Pipeline | None:
    """Return how rows are best shared on this device; None where its blocks keep none, or it needs two reductions.

    A team has the fewest blocks that have room for a few rows, or else for one; of few rows more, so that none is idle.
    """
    wide = all(rows.size(t) >= _LEAST_SIZE for t in rows.kept)
    single = len(rows.folds) == 1 and not rows.folds[0].stores
    if target.device is None or not target.has_tensor_maps or not rows.kept or not wide or not single:
        return None
    most, vector = target.device.sm_count, k.width * rows.bytes_kept
    chunk = max(_FEWEST, 1 << (_CHUNK_BYTES // vector).bit_length() - 1)
    places = (target.smem_max - _OTHERS) // (vector * chunk)
    vectors = rows.length // k.width
    if ceil(ceil(vectors / most) / chunk) >= places:
        return None
    wanted = ceil(vectors / (max(1, int(places / _AHEAD)) * chunk))
    spread = min(most // prod(mode.extent.size for mode in k.region.outer), vectors * vector // _LEAST)
    blocks = min(most, max(wanted, NO_TEAM + 1, spread))
    return Pipeline(most // (most // blocks), chunk, places * chunk)


class _PipelineNames(NamedTuple):
    """What its parameters are called."""

    blocks: str
    ring: str
    chunk: str
    readers: str
    writers: str
    teams: str


def add_pipeline(
    piece: RegionText, k: RowsKernel, rows: LongRows, found: Pipeline, when: str, target: Target, *, chosen: bool
) -> str:
    """Add the kernel, and its launch for rows that teams keep; return the condition under which there are others.

    Args:
        when: the condition under which rows are long; none: they always are.
        chosen: whether teams have these rows unless the tuner finds otherwise.
    """
    p = _add_choices(piece, found, target, chosen=chosen)
    chunks = f"ceil_div(round_up(ceil_div({k.cols} // {k.width}, {p.blocks}), {_LINE}), {p.chunk})"
    whole = "" if rows.joined else f" and {rows.whole}"
    enough = f"{p.blocks} > {NO_TEAM} and {chunks} < {p.ring} // {p.chunk}"
    counted = "".join(f" and {rows.source(t)}.numel < {_MOST_ELEMENTS}" for t in rows.kept)
    fits = k.naming.let("fits", f"{enough} and {p.blocks} <= sm_count{counted}{whole}")
    teams = k.naming.let("teams", f"max(1, min({k.rows}, {p.teams}, sm_count // {p.blocks}))")
    own, others = (f"{when} and {fits}", f"{when} and not {fits}") if when else (fits, f"not {fits}")
    passed, mail = k.pass_number("whole", rows.whole, "bool"), k.naming.fresh("mail")
    maps = {t.name: k.naming.fresh(f"map_{t.name}") for t in rows.kept}
    words, count = words_of(rows.folds)
    name, k.name = k.name, f"{k.name}_pipelined"
    piece.code = render(
        "rows_pipelined.cu.j2", k=k, long=rows, folds=rows.folds, others=rows.others, words=words, word_count=count,
        whole=passed, mail=mail, turns=_TURNS, has_roles=True, line=_LINE,
        box=_BOX, maps=maps, pointers={t.name: k.naming.tensor(rows.source(t)) for t in rows.kept},
    )  # fmt: skip
    piece.includes.append("cutlass/arch/barrier.h")
    for t in rows.kept:
        numel = f"{rows.source(t)}.numel"
        piece.maps.append(TensorMapText(maps[t.name], rows.source(t), (str(_BOX),), (numel,)))
    piece.scratch.append(ScratchText(mail, "int64", (teams, str(_TURNS), str(count), p.blocks), zero=True))
    kernel = f"{k.name}<{p.readers}, {p.writers}, {p.chunk}, {p.ring}, {p.blocks}>"
    threads = f"{p.readers} + {p.writers} + 96"
    smem = f"{p.ring} * {k.width * rows.bytes_kept} + {_ALIGNED}"
    arguments = (*maps.values(), *k.arguments, mail)
    piece.launches.append(
        LaunchText(kernel, (f"{teams} * {p.blocks}",), (threads,), arguments, own, smem, cooperative=True)
    )
    k.name = name
    return others


def _add_choices(piece: RegionText, found: Pipeline, target: Target, *, chosen: bool) -> _PipelineNames:
    first = len(piece.params)
    if chosen:
        piece.param("TEAM", found.blocks, *_team_sizes(found, target), emulator=_EMULATED)
    else:
        piece.param("TEAM", NO_TEAM, NO_TEAM, found.blocks)
    piece.param("RING", found.ring)
    piece.param("CHUNK", found.chunk, found.chunk // 2, found.chunk)
    piece.param("READERS", _READERS, _READERS // 2, _READERS, emulator=_READERS // 2)
    piece.param("WRITERS", _WRITERS, _WRITERS, 2 * _WRITERS)
    piece.param("TEAMS", _MOST_TEAMS, emulator=_EMULATED)
    names = _PipelineNames(*(param.name for param in piece.params[first:]))
    piece.where += [f"{names.ring} % {names.chunk} == 0", f"2 * ({names.ring} // {names.chunk}) < {_TURNS}"]
    piece.where += [f"{names.chunk} % {threads} == 0" for threads in (names.readers, names.writers)]
    return names


def _team_sizes(found: Pipeline, target: Target) -> list[int]:
    """Return sizes to try: as many blocks as make a team more or fewer, and none."""
    assert target.device is not None
    most = target.device.sm_count
    teams = most // found.blocks
    return sorted({NO_TEAM, _EMULATED, found.blocks, *(most // n for n in (max(1, teams - 1), teams + 1))})
