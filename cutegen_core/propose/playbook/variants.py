"""The menus: for each kind of region a naive, a better and a tuned kernel, in that order.

One variant is one clear idea. A file of several regions has as many variants as the longest of their menus; the others
take their level that is as far up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from cutegen_core.propose.playbook.by_shape import (
    has_invariants,
    rows_tuned,
    strips_hoisted,
    strips_naive,
    strips_tuned,
    strips_vector,
)
from cutegen_core.propose.playbook.naming import Naming, words_of
from cutegen_core.propose.playbook.one_launch import (
    columns,
    elementwise_naive,
    elementwise_tuned,
    elementwise_vector,
    rows_block,
    rows_naive,
    rows_registers,
    scan_block,
    scan_naive,
)
from cutegen_core.propose.playbook.products import menu as products
from cutegen_core.propose.playbook.regions import Kind, Planner, Region, are_strips
from cutegen_core.propose.playbook.repeats import Owner, owners
from cutegen_core.propose.playbook.rows import attention, recurrent
from cutegen_core.propose.playbook.rows.columns import columns_by_vectors, is_of_columns, pays_by_vectors
from cutegen_core.propose.playbook.rows.long_rows import long_rows, split_rows, wanted_shares
from cutegen_core.propose.playbook.rows.pieces import are_pieces, rows_of_pieces
from cutegen_core.propose.playbook.rows.segments import segments_naive, segments_shared
from cutegen_core.propose.playbook.rows.sorts import sort_block, sort_naive
from cutegen_core.propose.playbook.rows.vectors import has_vectors
from cutegen_core.propose.playbook.target import ANY, Target
from cutegen_core.propose.playbook.windows import launches as windows
from cutegen_core.propose.playbook.writing import Level, RegionText, ScratchText, write_file

MOST_COMBINATIONS = 1 << 12
"""Of the parameters' values of a whole file."""


@dataclass(frozen=True)
class Variant:
    """A kernel of the playbook.

    Attributes:
        name: short and unique in its menu, such as "naive" or "registers".
        idea: one line for the timeline.
        source: the kernel file.
    """

    name: str
    idea: str
    source: str


ELEMENTWISE = (
    Level("naive", "one thread, one element", elementwise_naive),
    Level("vectorised", "128-bit loads and stores, one vector a thread", elementwise_vector),
    Level("tuned", "several 128-bit vectors in flight a thread, block and items tunable", elementwise_tuned),
)
ELEMENTWISE_STRIDED = (
    ELEMENTWISE[0],
    Level("tuned", "one thread, one element, block size tunable", partial(elementwise_naive, tuned=True)),
)
ROWS = (
    Level("naive", "one thread, one row", rows_naive),
    Level("shuffle", "one block a row, combined with warp shuffles", rows_block),
    Level(
        "registers", "rows read once with 128-bit loads and kept in registers, block and items tunable", rows_registers
    ),
    Level(
        "tuned", "threads and vectors a thread chosen by the length of a row, each row kept in registers", rows_tuned
    ),
)
STRIPS = (
    Level("naive", "one thread, one element", strips_naive),
    Level("vectorised", "128-bit loads and stores of strips, one vector a thread", strips_vector),
    Level("tuned", "several 128-bit vectors of a strip in flight a thread, launch chosen by size", strips_tuned),
)
STRIPS_HOISTED = (
    *STRIPS[:2],
    Level("hoisted", "what is the same all along a strip computed once for several vectors", strips_hoisted),
    Level("tuned", "threads a strip chosen by its length, vectors and streaming tunable", strips_tuned),
)
ROWS_AMONG = (*ROWS[:2], ROWS[-1])
ROWS_STRIDED = (*ROWS[:2], Level("tuned", "one block a row, block size tunable", partial(rows_block, tuned=True)))
ROWS_PIECES = (
    *ROWS[:2],
    Level("tuned", "vectors of the pieces that a row lies in, threads a row tunable", rows_of_pieces),
)
SPLIT = "each reduction cut into shares for several blocks, which a second kernel puts together in one order"
ROWS_LONG = (
    *ROWS[:2],
    Level("tuned", "vectors along the fastest dimension, what fits of a row kept in shared memory", long_rows),
)
_BY_CLUSTERS: dict[Level, Callable[..., RegionText]] = {ROWS[-1]: rows_tuned, ROWS_LONG[-1]: long_rows}
"""Levels that take clusters where the device has them."""
COLUMNS = (
    Level("naive", "one thread, one result", rows_naive),
    Level("tiled", "coalesced loads, eight threads share a reduction through shared memory", columns),
    Level("tuned", "tile of results and threads a reduction tunable", partial(columns, tuned=True)),
)
COLUMNS_WIDE = (
    *COLUMNS[:2],
    Level("tuned", "vectors of neighbouring results, short reductions kept in registers", columns_by_vectors),
)
SCAN = (
    Level("naive", "one thread, one row", scan_naive),
    Level("shuffle", "one block a row by vectors, threads combined with warp shuffles", scan_block),
    Level("tuned", "the next vectors read while the current ones are combined", partial(scan_block, tuned=True)),
)
SCAN_STRIDED = (SCAN[0], Level("tuned", "one thread a row, block size tunable", partial(scan_naive, tuned=True)))

SORT = (
    Level("naive", "one thread, one element, whose place is how many come before it", sort_naive),
    Level("tuned", "one block a row, sorted in shared memory by a bitonic network, block size tunable", sort_block),
)
SEGMENTS = (
    Level("naive", "one thread, one result: its elements found among the sorted ones, then one by one", segments_naive),
    Level("tuned", "threads share the elements of a result, how many is tunable", segments_shared),
)


def menu_of(region: Region, target: Target = ANY, *, alone: bool = True) -> tuple[Level, ...]:
    """Return the menu that fits a region's memory order, its types and the target.

    Args:
        alone: no other region is in the file, so that one more level costs little time.
    """
    if region.kind is Kind.ELEMENTWISE:
        return ELEMENTWISE if all(region.is_flat(s.out) for s in region.stores) else ELEMENTWISE_STRIDED
    if region.kind is Kind.PRODUCT:
        return products.menu(region, target)
    if region.kind is Kind.ATTENTION:
        return attention.menu(region, target)
    if region.kind is Kind.SCAN:
        walked = (a for a in region.accesses if region.varies(a) and not a.counted)
        return SCAN if all(region.reduced[0].stride(a).text == "1" for a in walked) else SCAN_STRIDED
    if region.kind is Kind.SORT:
        return SORT
    if region.kind is Kind.SEGMENTS:
        return SEGMENTS
    if region.kind is Kind.RECURRENT:
        return recurrent.menu(target)
    if region.sliding is not None:
        return windows.menu(region, target)
    if region.kind is Kind.STRIPS:
        wide = STRIPS_HOISTED if has_invariants(region) else STRIPS
        return wide if are_strips(region) else STRIPS[:1]
    shares = wanted_shares(region, target.device.sm_count if target.device else products.SM_COUNT)
    if shares > 1:
        return (*_rows_menu(region, alone=alone)[:-1], Level("split", SPLIT, partial(split_rows, shares=shares)))
    *lower, last = _rows_menu(region, alone=alone)
    if last in _BY_CLUSTERS:
        last = replace(last, write=partial(_BY_CLUSTERS[last], target=target))
    return (*lower, last)


def _rows_menu(region: Region, *, alone: bool) -> tuple[Level, ...]:
    if pays_by_vectors(region):
        return COLUMNS_WIDE
    if is_of_columns(region):
        return COLUMNS
    varying = [a for a in region.accesses if region.varies(a) and not a.counted]
    cols = region.reduced[-1].extent.size
    contiguous = all(
        region.reduced[-1].stride(a).text == "1" and a.offset.text == "0"
        and all(m.stride(a).size % cols == 0 for m in region.outer)
        for a in varying
    )  # fmt: skip
    # A single row has one launch for all lengths: small workloads reach no other one, whatever its length is.
    several = region.rows > 1
    if len(region.reduced) == 1 and contiguous and several:
        return ROWS if alone else ROWS_AMONG
    if has_vectors(region):
        return ROWS_LONG
    return ROWS_PIECES if are_pieces(region) else ROWS_STRIDED


def ladder(planner: Planner, target: Target = ANY) -> list[tuple[Level, ...]]:
    """Return a level for each region, for every variant in order: the longest menu leads, the others keep pace.

    The last region leads among equals. A region with a shorter menu takes the level as far up it; every region begins
    with its first level and ends with its last.
    """
    menus = _menus(planner, target)
    count = max(len(menu) for menu in menus)
    return [tuple(menu[_nearest(level, count, len(menu))] for menu in menus) for level in range(count)]


def leading(planner: Planner, levels: Sequence[Level], target: Target = ANY) -> Level:
    """Return the level that names a variant: the longest menu's, the last region's among equals."""
    sizes = [len(menu) for menu in _menus(planner, target)]
    return levels[max(range(len(sizes)), key=lambda k: (sizes[k], k))]


def _menus(planner: Planner, target: Target) -> list[tuple[Level, ...]]:
    alone = len(planner.regions) == 1
    return [menu_of(region, target, alone=alone) for region in planner.regions]


def idea_of(levels: Sequence[Level]) -> str:
    """Return the ideas of all regions in one line."""
    return "; ".join(dict.fromkeys(level.idea for level in levels))


def _nearest(level: int, count: int, own: int) -> int:
    """Return the level of a menu of `own` levels that is as far up as `level` is among `count`."""
    return (2 * level * (own - 1) + count - 1) // (2 * (count - 1)) if count > 1 else 0


def write_variants(
    plans: tuple[Planner, Planner, Planner], name: str, taken: set[str], target: Target = ANY
) -> tuple[Variant, ...]:
    """Return every variant; the plans are of the first, of those between, and of the last one."""
    first, middle, last = plans
    written = [(first, ladder(first, target)[0]), *((middle, levels) for levels in ladder(middle, target)[1:-1])]
    written += [(last, levels) for levels in ladder(last, target)[1:][-1:]]
    return tuple(_variant(plan, levels, name, taken, target) for plan, levels in written)


def _variant(planner: Planner, levels: Sequence[Level], name: str, taken: set[str], target: Target) -> Variant:
    alone = [Owner(k) for k in range(len(levels))]
    marked = _write(planner, levels, name, Naming(set(taken), words=None), alone)
    naming = Naming(set(taken), words_of(piece.code for piece in marked))
    shared = owners(marked, _names(planner, name))
    pieces = _write(planner, levels, name, naming, shared)
    _fix_small(planner.regions, pieces, shared)
    idea = idea_of(levels)
    scratch = [ScratchText(b.name, b.dtype, tuple(d.text for d in b.dims) or ("1",), b.zero) for b in planner.scratch]
    source = write_file(idea, naming, pieces, scratch, ("fast_math",) if planner.fast else ())
    return Variant(leading(planner, levels, target).name, idea, source)


def _names(planner: Planner, name: str) -> list[str]:
    """Return what each region's kernels are called."""
    if len(planner.regions) == 1:
        return [name]
    return [f"{name}_{one.kind.value}{n}" for n, one in enumerate(planner.regions, 1)]


def _write(
    planner: Planner, levels: Sequence[Level], name: str, naming: Naming, shared: Sequence[Owner]
) -> list[RegionText]:
    """Return the text of each region by its level; `shared` says whose kernel it launches."""
    names, pieces = _names(planner, name), list[RegionText]()
    for k, (one, level, owner) in enumerate(zip(planner.regions, levels, shared, strict=True)):
        number = str((owner.region if owner.tuned else k) + 1) if len(names) > 1 else ""
        piece = level.write(one, names[owner.region], naming, number)
        if owner.region != k:
            piece.code, piece.params = "", [] if owner.tuned else piece.params
        if one.wanted:
            piece.launches = [launch.only(one.wanted) for launch in piece.launches]
        pieces.append(piece)
    return pieces


def _fix_small(regions: Sequence[Region], pieces: Sequence[RegionText], shared: Sequence[Owner]) -> None:
    """Leave no choice to the parameters of the regions with least work, where all choices together are too many."""
    combinations, work = 1, [0] * len(pieces)
    for k, (region, owner) in enumerate(zip(regions, shared, strict=True)):
        work[owner.region if owner.tuned else k] += region.work
    for k in sorted(range(len(pieces)), key=lambda k: -work[k]):
        piece = pieces[k]
        own = prod(len(p.values) for p in piece.params)
        if combinations * own > MOST_COMBINATIONS:
            piece.params = [replace(p, values=(p.default,)) for p in piece.params]
        else:
            combinations *= own
