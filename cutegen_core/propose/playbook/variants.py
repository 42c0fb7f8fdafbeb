"""The menus: for each kind of region a naive, a better and a tuned kernel, in that order.

One variant is one clear idea. A file of several regions takes each region's kernels of the same level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cutegen_core.propose.playbook.by_shape import (
    has_invariants,
    rows_tuned,
    strips_hoisted,
    strips_naive,
    strips_tuned,
    strips_vector,
)
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.one_launch import (
    attention,
    columns,
    elementwise_naive,
    elementwise_tuned,
    elementwise_vector,
    product_naive,
    product_tiled,
    rows_block,
    rows_naive,
    rows_registers,
    scan_block,
    scan_naive,
)
from cutegen_core.propose.playbook.regions import Kind, Planner, Region, are_strips
from cutegen_core.propose.playbook.writing import RegionText, few_points, write_file


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


@dataclass(frozen=True)
class Level:
    """An entry of a menu."""

    name: str
    idea: str
    write: Callable[[Region, str, Naming, str], RegionText]


ELEMENTWISE = (
    Level("naive", "one thread, one element", elementwise_naive),
    Level("vectorised", "128-bit loads and stores, one vector a thread", elementwise_vector),
    Level("tuned", "several 128-bit vectors in flight a thread, block and items tunable", elementwise_tuned),
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
ROWS_STRIDED = (*ROWS[:2], Level("tuned", "one block a row, block size tunable", partial(rows_block, tuned=True)))
COLUMNS = (
    Level("naive", "one thread, one result", rows_naive),
    Level("tiled", "coalesced loads, eight threads share a reduction through shared memory", columns),
    Level("tuned", "tile of results and threads a reduction tunable", partial(columns, tuned=True)),
)
SCAN = (
    Level("naive", "one thread, one row", scan_naive),
    Level("shuffle", "one block a row by vectors, threads combined with warp shuffles", scan_block),
    Level("tuned", "the next vectors read while the current ones are combined", partial(scan_block, tuned=True)),
)
SCAN_STRIDED = (SCAN[0], Level("tuned", "one thread a row, block size tunable", partial(scan_naive, tuned=True)))
ATTENTION = (
    Level("naive", "scores in memory, a kernel for each step", attention),
    Level("online", "online softmax over tiles of keys, scores kept in the block", attention),
    Level("tuned", "online softmax with tiles of queries and keys tunable", partial(attention, tuned=True)),
)
PRODUCT = (
    Level("naive", "one thread, one element of the result", product_naive),
    Level("tiled", "64 x 64 tiles staged in shared memory, 4 x 4 results a thread", product_tiled),
    Level(
        "prefetch",
        "two stages, 128-bit reads of them, next slice fetched meanwhile, tiles tunable",
        partial(product_tiled, tuned=True),
    ),
)


def menu_of(region: Region) -> tuple[Level, ...]:
    """Return the menu that fits a region's memory order."""
    if region.kind is Kind.ELEMENTWISE:
        return ELEMENTWISE if all(region.is_flat(s.out) for s in region.stores) else ELEMENTWISE[:1]
    if region.kind is Kind.PRODUCT:
        return PRODUCT
    if region.kind is Kind.ATTENTION:
        return ATTENTION
    if region.kind is Kind.SCAN:
        walked = (a for a in region.accesses if region.varies(a) and not a.counted)
        return SCAN if all(region.reduced[0].stride(a).text == "1" for a in walked) else SCAN_STRIDED
    if region.kind is Kind.STRIPS:
        wide = STRIPS_HOISTED if has_invariants(region) else STRIPS
        return wide if are_strips(region) else STRIPS[:1]
    varying = [a for a in region.accesses if region.varies(a) and not a.counted]
    if not any(region.reduced[-1].stride(a).text == "1" for a in varying):
        return COLUMNS
    cols = region.reduced[-1].extent.size
    contiguous = all(
        region.reduced[-1].stride(a).text == "1" and a.offset.text == "0"
        and all(m.stride(a).size % cols == 0 for m in region.outer)
        for a in varying
    )  # fmt: skip
    return ROWS if len(region.reduced) == 1 and contiguous else ROWS_STRIDED


def write_variants(plans: tuple[Planner, Planner, Planner], name: str, taken: set[str]) -> tuple[Variant, ...]:
    """Return every variant; the last region's menu gives the names. The plans are of the first, middle and last one."""
    first, middle, last = plans
    count = len(menu_of(last.regions[-1]))
    chosen = [first, *(middle for _ in range(count - 2)), last][-count:]
    return tuple(_variant(level, level == count - 1, plan, name, set(taken)) for level, plan in enumerate(chosen))


def _variant(level: int, is_last: bool, planner: Planner, name: str, taken: set[str]) -> Variant:
    naming = Naming(taken)
    pieces, chosen = [], []
    for number, region in enumerate(planner.regions, 1):
        menu = menu_of(region)
        chosen.append(menu[-1] if is_last else menu[min(level, len(menu) - 1)])
        several = len(planner.regions) > 1
        kernel = f"{name}_{region.kind.value}{number}" if several else name
        pieces.append(chosen[-1].write(region, kernel, naming, str(number) if several else ""))
    idea = "; ".join(dict.fromkeys(level.idea for level in chosen))
    params = few_points([p for x in pieces for p in x.params])
    source = write_file(
        idea, naming, params, [w for x in pieces for w in x.where], planner.scratch,
        [launch for x in pieces for launch in x.launches], "\n".join(x.code for x in pieces), fast=planner.fast,
    )  # fmt: skip
    return Variant(chosen[-1].name, idea, source)
