"""Write rows that clusters keep one after the other: what all rows read, as the weights of a norm, stays in registers.

The kernel of `long_rows` has a cluster for each row, whose blocks read the weights again for every row: at 262144
columns that is as much as the row and its results together, and the L2 bounds it. Its barriers of the cluster also wait
until all that was written is in memory. Here a cluster stays, keeps the weights, and has no such barrier. What is made
of exponentials, or of squares around a mean, takes long to put together: there warps have roles, so that none waits for
it. Of plain sums it is faster if all threads do one thing after the other. Measured on H200s
(`benchmarks.kernels.rows`), layer norms of such rows come from 0.85 of a copy's bandwidth to 0.95.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.parameters import TensorText
from cutegen_core.propose.playbook.rows.folds import words_of
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.rows.team_launch import divide
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

_BLOCKS, _CHUNK, _LINE = (16, 8, 4, 2), 1024, 32
"""Of a cluster, most first; vectors of a chunk; those of which a share has a whole number: whole lines of the cache."""
_FEW_THREADS, _MANY_THREADS = 256, 512
"""Of a block that reduce and write rows; the others where exponentials are summed."""
_HELPERS = 128
"""Further threads where warps have roles."""
_EMULATED, _MOST_EMULATED = 2, 2
"""Blocks of a cluster, and clusters, on the emulator."""
_OTHERS = 4 << 10
"""Bytes of shared memory left to barriers and reductions."""
_FEWEST_PLACES = 3
"""Shares of rows that a block has room for: one is written, one is reduced, and one is on its way."""
_MOST_HELD = 128 * _FEW_THREADS
"""Registers of a block that hold what all rows read; of halves half as many, since a thread has more elements."""
_FEWEST_ROWS = 4
"""Rows of a cluster from which it pays to stay."""
_LEAST_SHARE, _LEAST_OF_EXPONENTIALS = 32 << 10, 48 << 10
"""Bytes of a row that a block keeps, from which they take longer to come than its blocks take to reduce them and to
tell one another."""
_HALF = 2
"""Bytes of an element of which clusters keep rows of exponentials though all rows read nothing."""


class Shares(NamedTuple):
    """Blocks of a cluster, chunks of a block's share of a row, and shares that it has room for."""

    blocks: int
    chunks: int
    places: int


def wanted_persistent(k: RowsKernel, rows: LongRows, target: Target) -> Shares | None:
    """Return how clusters of this device keep rows one after the other: of as many blocks as still have enough to read.

    None where other kernels have these rows.
    """
    if not _suits(k, rows):
        return None
    found = (_shares(k, rows, target, blocks) for blocks in _BLOCKS if blocks in target.cluster_sizes)
    return next(filter(None, found), None)


def _shares(k: RowsKernel, rows: LongRows, target: Target, blocks: int) -> Shares | None:
    assert target.device is not None
    share = ceil(ceil(rows.length // k.width / blocks) / _LINE) * _LINE
    chunks = ceil(share / _CHUNK)
    held = sum(chunks * _CHUNK * k.width * rows.size(t) for t in _stay(k, rows)) // 4
    places = (target.smem_max - _OTHERS) // (chunks * _CHUNK * k.width * rows.bytes_kept)
    few = k.region.rows < _FEWEST_ROWS * (target.device.sm_count // blocks)
    least = _LEAST_OF_EXPONENTIALS if rows.folds[0].together == "exponentials" else _LEAST_SHARE
    short = share * k.width * rows.bytes_kept < least
    much = held > _MOST_HELD * min(4, *(rows.size(t) for t in rows.kept)) // 4
    return None if few or short or much or places < _FEWEST_PLACES else Shares(blocks, chunks, places)


def is_mostly_of_all_rows(k: RowsKernel, rows: LongRows) -> bool:
    """Return whether what all rows read is more than what is kept of one: then it also pays for rows that one block
    keeps beside another one's."""
    return sum(rows.size(t) for t in _stay(k, rows)) > rows.bytes_kept


def _suits(k: RowsKernel, rows: LongRows) -> bool:
    """Return whether rows are whole vectors with one reduction, and all read the same besides what is kept, if more."""
    if len(rows.folds) != 1 or rows.folds[0].stores or not k.statements.stores or rows.length % k.width:
        return False
    stay = _stay(k, rows)
    fixed = all(rows.is_of_all_rows(t) and rows.order(t) == "contiguous" for t in stay)
    slow = rows.folds[0].together == "exponentials" and all(rows.size(t) <= _HALF for t in rows.kept)
    return bool(rows.kept) and (bool(stay) or slow) and fixed


def add_persistent(piece: RegionText, k: RowsKernel, rows: LongRows, found: Shares, when: str) -> str:
    """Add the kernel, and its launch for rows that clusters keep; return the condition under which there are others.

    Args:
        when: the condition under which rows are long; none: they always are.
    """
    together = rows.folds[0].together
    threads = _MANY_THREADS if together == "exponentials" else _FEW_THREADS
    block = piece.param("PERSIST_THREADS", threads, _FEW_THREADS, _MANY_THREADS)
    items = piece.param("PERSIST_EACH", _CHUNK // threads, _CHUNK // _MANY_THREADS, _CHUNK // _FEW_THREADS)
    piece.where.append(f"{block} * {items} == {_CHUNK}")
    chunks, places = piece.param("PERSIST_CHUNKS", found.chunks), piece.param("PERSIST_ROWS", found.places)
    blocks = piece.param("PERSIST_BLOCKS", found.blocks, emulator=_EMULATED)
    most = piece.param("PERSIST_CLUSTERS", 1024, emulator=_MOST_EMULATED)
    share = f"round_up(ceil_div({k.cols} // {k.width}, {blocks}), {_LINE})"
    fits = k.naming.let("stays", f"{share} <= {block} * {items} * {chunks} and {blocks} <= sm_count and {rows.whole}")
    own, others = divide(when, fits)
    taken, stay = k.naming.fresh("taken"), _stay(k, rows)
    words, count = words_of(rows.folds)
    name, k.name = k.name, f"{k.name}_persistent"
    template = "rows_persistent_roles.cu.j2" if together else "rows_persistent.cu.j2"
    code = render(
        template, k=k, long=rows, folds=rows.folds, others=rows.others, words=words, word_count=count,
        taken=taken, line=_LINE, has_roles=False, others_stay=True, stay=stay,
        passing=[t for t in k.tensors if t not in stay],
    )  # fmt: skip
    piece.add_code(code)
    piece.includes += ["cooperative_groups.h", "cutlass/arch/barrier.h"]
    if together:
        piece.includes.append("cutlass/arch/reg_reconfig.h")
    piece.scratch.append(ScratchText(taken, "int32", ("1",), zero=True))
    clusters = f"max(1, min({k.rows}, {most}, sm_count // {blocks}))"
    smem = f"{places} * {block} * {items} * {chunks} * {k.width * rows.bytes_kept}"
    kernel, arguments = f"{k.name}<{block}, {items}, {chunks}, {places}, {blocks}>", (*k.arguments, taken)
    grid, all_threads = f"{clusters} * {blocks}", f"{block} + {_HELPERS}" if together else block
    piece.launches.append(LaunchText(kernel, (grid,), (all_threads,), arguments, own, smem, (blocks,)))
    k.name = name
    return others


def _stay(k: RowsKernel, rows: LongRows) -> list[TensorText]:
    """Return what is read along each row and not kept."""
    return [t for t in k.inputs if t.copied and t not in rows.kept]
