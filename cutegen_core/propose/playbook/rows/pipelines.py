"""Write rows that teams of blocks keep whole, where the device copies by itself: each warp of a block has one role.

In the kernel of `teams` every thread reads, waits for the team and writes, one after the other, for each row. Here a
warp copies ahead by tensor maps, others reduce ahead, one tells the team, one hears it, and others write, so that a
row waits for nothing but its own team. All blocks of a team must be there at once: the launch is cooperative.
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
_BOX, _LEAST_SIZE, _MOST_ELEMENTS = 256, 4, 1 << 31
"""Elements of a box of a tensor map, the most there may be; the least bytes of one, since smaller boxes come too slowly
(on an H200 0.59 of the bandwidth of a copy for halves); and the elements that a box's place can count."""
_TURNS = 64
"""Turns whose words share no memory."""
_OTHER_THREADS = 96
"""Of a block: a warp each that copies, tells and hears."""


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
    blocks = min(most, max(wanted, NO_TEAM + 1, few_rows_blocks(k, rows, most)))
    return Pipeline(most // (most // blocks), chunk, places * chunk)


class _PipelineNames(NamedTuple):
    """Hold what its parameters are called."""

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
    fits = name_fits(k, rows, p.blocks, f"{chunks} < {p.ring} // {p.chunk}", "sm_count")
    # A scratch buffer has a size where the plan chooses launches, and none yet where it computes numbers.
    counted = "".join(f" and {rows.source(t)}.numel < {_MOST_ELEMENTS}" for t in rows.kept)
    own, others = divide(when, f"({fits}{counted})")
    teams = name_teams(k, p.blocks, p.teams, "sm_count")
    passed, mail = k.pass_number("whole", rows.whole, "bool"), k.naming.fresh("mail")
    maps = {t.name: k.naming.fresh(f"map_{t.name}") for t in rows.kept}
    words, count = words_of(rows.folds)
    name, k.name = k.name, f"{k.name}_pipelined"
    code = render(
        "rows_pipelined.cu.j2", k=k, long=rows, folds=rows.folds, others=rows.others, words=words, word_count=count,
        whole=passed, mail=mail, turns=_TURNS, has_roles=True, others_stay=False, line=_LINE,
        other_threads=_OTHER_THREADS, box=_BOX, maps=maps,
        pointers={t.name: k.naming.tensor(rows.source(t)) for t in rows.kept},
    )  # fmt: skip
    piece.add_code(code)
    piece.includes.append("cutlass/arch/barrier.h")
    for t in rows.kept:
        numel = f"{rows.source(t)}.numel"
        piece.maps.append(TensorMapText(maps[t.name], rows.source(t), (str(_BOX),), (numel,)))
    piece.scratch.append(ScratchText(mail, "int64", (teams, str(_TURNS), str(count), p.blocks), zero=True))
    kernel = f"{k.name}<{p.readers}, {p.writers}, {p.chunk}, {p.ring}, {p.blocks}>"
    threads = f"{p.readers} + {p.writers} + {_OTHER_THREADS}"
    smem = f"{p.ring} * {k.width * rows.bytes_kept} + {_ALIGNED}"
    arguments = (*maps.values(), *k.arguments, mail)
    piece.launches.append(
        LaunchText(kernel, (f"{teams} * {p.blocks}",), (threads,), arguments, own, smem, cooperative=True)
    )
    k.name = name
    return others


def _add_choices(piece: RegionText, found: Pipeline, target: Target, *, chosen: bool) -> _PipelineNames:
    assert target.device is not None
    most, first = target.device.sm_count, len(piece.params)
    teams = most // found.blocks
    one_more_or_less = [most // n for n in (max(1, teams - 1), teams + 1)]
    add_team_size(piece, found.blocks, one_more_or_less, chosen=chosen)
    piece.param("RING", found.ring)
    piece.param("CHUNK", found.chunk, found.chunk // 2, found.chunk)
    piece.param("READERS", _READERS, _READERS // 2, _READERS, emulator=_READERS // 2)
    piece.param("WRITERS", _WRITERS, _WRITERS, 2 * _WRITERS)
    add_most_teams(piece)
    names = _PipelineNames(*(param.name for param in piece.params[first:]))
    piece.where += [f"{names.ring} % {names.chunk} == 0", f"2 * ({names.ring} // {names.chunk}) < {_TURNS}"]
    piece.where += [f"{names.chunk} % {threads} == 0" for threads in (names.readers, names.writers)]
    return names
