"""Write rows of any length: what fits of a row stays in shared memory, and registers, between its passes.

A row has one block, or a cluster of them that share it: eight blocks keep 1 MB of it in shared memory and registers, so
that memory is read once. Each takes at most half of an SM: while one block waits for others of its cluster, a block of
another row reads or writes. Measured on an H200 (`benchmarks.kernels.rows`): the fewer blocks share a row, the better;
blocks that take a whole SM, or clusters of 16, of which fewer fit on the device, are slower.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.one_launch import block_of
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.rows.columns import is_of_columns
from cutegen_core.propose.playbook.rows.kept_rows import LongRows
from cutegen_core.propose.playbook.rows.persistent import add_persistent, is_mostly_of_all_rows, wanted_persistent
from cutegen_core.propose.playbook.rows.pipelines import add_pipeline, wanted_pipeline
from cutegen_core.propose.playbook.rows.teams import add_teams, wanted_team
from cutegen_core.propose.playbook.rows.vectors import has_vectors
from cutegen_core.propose.playbook.target import ANY, Target
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

_TWO_BLOCKS, _ONE_BLOCK = 100 << 10, 200 << 10
"""Bytes of a row in shared memory where two blocks share an SM, or one has it to itself."""
_OTHERS = 4 << 10
"""Bytes of shared memory left to the exchanges of reductions."""
_GRAIN = 16
"""Elements of which a kept part has a whole number, so that all that is kept is aligned."""
_EMULATED = 2
"""Blocks of a cluster on the emulator, which gives each a process."""
_TWO_BLOCKS_THREADS = 512
"""Of a block, where two share an SM, unless the tuner finds others better."""
_HELD, _MOST_BLOCKS = 4, 8
"""Of a cluster, unless the tuner finds others better: vectors of a thread in registers, blocks."""
_WITH_EXPONENTIALS = 4 / 3
"""How much longer than what it keeps a cluster's row may be, where exponentials are summed."""
_LONG = 16384
"""Elements of a row from which the largest block pays, where it is alone on its SM."""


def long_rows(region: Region, name: str, naming: Naming, suffix: str, *, target: Target = ANY) -> RegionText:
    """Write the kernel alone, for rows of several dimensions or none other."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    add_long_rows(piece, k, target=target)
    return piece


def add_long_rows(piece: RegionText, k: RowsKernel, when: str = "", *, target: Target = ANY) -> None:
    """Add the kernel to a region's others, and its launch under a condition.

    There is one launch for whole vectors and for others: an emulator only believes launches that small workloads make.

    Args:
        target: has the clusters that share rows too long for half an SM.
    """
    rows = LongRows(k)
    row_bytes = rows.length * rows.bytes_kept
    shared = row_bytes > _TWO_BLOCKS
    persistent = wanted_persistent(k, rows, target) if shared or is_mostly_of_all_rows(k, rows) else None
    if persistent:
        when = add_persistent(piece, k, rows, persistent, when)
    pipeline = wanted_pipeline(k, rows, target) if shared and not persistent else None
    team = wanted_team(k, rows, target) if shared and not (persistent or pipeline) else None
    teams = bool(persistent) or (bool(pipeline or team) and not _suits_clusters(k, rows, target))
    first = len(piece.params)
    if pipeline:
        when = add_pipeline(piece, k, rows, pipeline, when, target, chosen=teams)
    if team:
        when = add_teams(piece, k, rows, team, when, target, chosen=teams)
    second = len(piece.params)
    _add_rows(piece, k, rows, row_bytes if shared and target.cluster_sizes else 0, when, target)
    if (
        persistent or pipeline or team
    ):  # the kernel that does not have these rows has no choice but, of TEAM, to have them
        idle = slice(second, None) if teams else slice(first + 1, second)
        piece.params[idle] = [replace(p, values=(p.default,)) for p in piece.params[idle]]


def _suits_clusters(k: RowsKernel, rows: LongRows, target: Target) -> bool:
    """Return whether clusters rather than teams have these rows.

    A cluster reads twice what its blocks do not keep: only exponentials take longer than that. Of rows that it keeps
    it is faster than a team (`benchmarks.kernels.rows` on an H200). Clusters of few rows leave blocks idle.
    """
    kept = _MOST_BLOCKS * _most_kept(k, rows, target) if target.cluster_sizes else 0
    most = _WITH_EXPONENTIALS * kept if any(fold.together == "exponentials" for fold in rows.folds) else kept
    row_bytes = rows.length * rows.bytes_kept
    blocks = _MOST_BLOCKS * k.region.rows
    assert target.device is not None
    return row_bytes <= most and blocks >= 2 * target.device.sm_count


def _add_rows(piece: RegionText, k: RowsKernel, rows: LongRows, shared: int, when: str, target: Target) -> None:
    """Add the kernel that has a block a row, or a cluster of them where the bytes of a row are given as `shared`."""
    size, length = rows.bytes_kept, rows.length
    two_blocks = shared or 0 < length * size <= _TWO_BLOCKS
    threads = _TWO_BLOCKS_THREADS if two_blocks or length <= _LONG else 1024
    if length <= 2048:  # of a short row, each has one vector
        threads = block_of(-(-length // k.width), 256)
    each = 2 if shared and (rows.takes_registers or length % k.width) else rows.wanted_vectors
    block = piece.param("THREADS", threads, *sorted({threads, 256, 512, 1024}))
    items = piece.param("EACH", each, 2, 4)
    cluster = _add_cluster(piece, shared, _most_kept(k, rows, target), target) if shared else ""
    held = _add_held(piece, items) if cluster else ""
    share = f"max(ceil_div({k.cols}, {cluster}) - {held} * {block} * {k.width}, {_GRAIN})" if cluster else k.cols
    kept_count = _add_kept(piece, k, size, share, _TWO_BLOCKS if two_blocks else _ONE_BLOCK) if size else ""
    whole = k.pass_number("whole", rows.whole, "bool")
    calls = list(range(sum(len(fold.parts) for fold in rows.folds)))[::-1]
    code = render(
        "rows_long.cu.j2", k=k, long=rows, whole=whole, kept_count=kept_count, split="", parts="", cluster=cluster,
        calls=calls,
    )  # fmt: skip
    piece.add_code(code)
    kernel = f"{k.name}<{', '.join(filter(None, (block, items, held, cluster)))}>"
    grid, smem = f"{k.rows} * {cluster}" if cluster else k.rows, f"{kept_count} * {size}" if size else ""
    piece.launches.append(LaunchText(kernel, (grid,), (block,), k.arguments, when, smem, (cluster,) if cluster else ()))


def _add_cluster(piece: RegionText, row_bytes: int, block_bytes: int, target: Target) -> str:
    """Add how many blocks share a row: as few as keep all of it."""
    piece.includes.append("cooperative_groups.h")
    blocks = next((n for n in target.cluster_sizes if row_bytes <= n * block_bytes), _MOST_BLOCKS)
    return piece.param("CLUSTER", min(blocks, _MOST_BLOCKS), *target.cluster_sizes, emulator=_EMULATED)


def _add_held(piece: RegionText, items: str) -> str:
    """Add how many vectors of a row a thread has in registers."""
    held = piece.param("HELD", _HELD, 0, _HELD, 2 * _HELD, 4 * _HELD)
    piece.where.append(f"{held} % {items} == 0")
    return held


def _most_kept(k: RowsKernel, rows: LongRows, target: Target) -> int:
    """Return the bytes of a row that a block of a cluster keeps."""
    in_registers = _HELD * _TWO_BLOCKS_THREADS * k.width * rows.bytes_kept
    return in_registers + min(_TWO_BLOCKS, target.smem_max // 2 - _OTHERS)


def _add_kept(piece: RegionText, k: RowsKernel, size: int, share: str, kept: int) -> str:
    """Add how many places of its share a block keeps in shared memory, `size` bytes each; return the number passed.

    Args:
        kept: bytes of them, at most, unless the tuner finds others better.
    """
    choices = [most // size // _GRAIN * _GRAIN for most in (_TWO_BLOCKS // 2, _TWO_BLOCKS, _ONE_BLOCK)]
    keep = piece.param("KEEP", kept // size // _GRAIN * _GRAIN, *choices)
    most = f"(smem_max - {_OTHERS}) // {size * _GRAIN} * {_GRAIN}"
    return k.pass_number("kept_count", f"min(round_up({share}, {_GRAIN}), {keep}, {most})", "int")


SHARES = (2, 4, 8, 16, 32, 64)
_SPLIT_FROM, _SHARE, _BLOCKS, _ACROSS = 1 << 18, 1024, 4, 32
"""Elements from which a second kernel pays, the fewest of a share, blocks an SM, rows of a block of columns."""
_DTYPE = {"float": "float32", "double": "float64", "long": "int64"}


def wanted_shares(region: Region, sm_count: int) -> int:
    """Return into how many shares rows are best cut that leave most of the device idle; 1: into none.

    They must be reduced once, to nothing but results of rows.
    """
    reductions = [t for t in region.terms.terms.values() if t.reduction is not None]
    plain = all(t.level == 1 and t.ctype in _DTYPE for t in reductions) and not any(
        region.varies(s.out) for s in region.stores
    )
    across = is_of_columns(region)
    along = not across and has_vectors(region)
    rows, length = region.rows, region.length
    if not plain or not (along or across) or rows * length < _SPLIT_FROM:
        return 1
    blocks = rows if along else -(-rows // _ACROSS)
    return max((n for n in SHARES if n * blocks <= _BLOCKS * sm_count and n * _SHARE <= length), default=1)


def split_rows(region: Region, name: str, naming: Naming, suffix: str, shares: int) -> RegionText:
    """Write a kernel that reduces each share of a row to scratch, and one that puts the shares of a row together."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    (one,) = k.statements.passes
    splits = piece.param("SPLITS", shares, *SHARES)
    scratch = [ScratchText(naming.fresh("shares"), _DTYPE[r.ctype], (splits, k.rows)) for r in one.reductions]
    split = "".join(f", {r.ctype}* {r.shares}" for r in one.reductions)
    parts = "".join(f", {r.shares}" for r in one.reductions)
    block: tuple[str, ...]
    if not is_of_columns(region):
        rows = LongRows(k)
        block, items = (piece.param("THREADS", 256, 256, 512, 1024),), piece.param("EACH", rows.wanted_vectors, 2, 4)
        whole = k.pass_number("whole", rows.whole, "bool")
        code = render(
            "rows_long.cu.j2", k=k, long=rows, whole=whole, kept_count="", split=split, parts=parts, cluster=""
        )
        kernel, across = f"{name}<{block[0]}, {items}, {splits}>", k.rows
    else:
        block = piece.param("BX", _ACROSS, 32, 64), piece.param("BY", 16, 8, 16)
        code = render("rows_columns.cu.j2", k=k, p={"BX": block[0], "BY": block[1]}, split=split)
        kernel, across = f"{name}<{', '.join(block)}, {splits}>", f"ceil_div({k.rows}, {block[0]})"
    piece.code = code + "\n" + render("rows_finish.cu.j2", k=k, split=split)
    piece.scratch += scratch
    arguments = (*k.arguments, *(s.name for s in scratch))
    piece.launches.append(LaunchText(kernel, (across, splits), block, arguments))
    piece.launches.append(LaunchText(f"{name}_finish<{splits}>", (f"ceil_div({k.rows}, 128)",), ("128",), arguments))
    return piece
