"""The menus: for each kind of region a naive, a better and a tuned kernel, in that order.

One variant is one clear idea. A file of several regions takes each region's kernels of the same level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from cutegen_core.propose.playbook.kernels import ElementwiseKernel, ProductKernel, RegionKernel, RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Kind, Planner, Region
from cutegen_core.propose.playbook.writing import LaunchText, ParameterText, render, write_file


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


@dataclass
class RegionText:
    """The part of a kernel file that one region contributes.

    Attributes:
        suffix: behind the names of its parameters, where other regions have some of that name.
    """

    suffix: str
    code: str = ""
    params: list[ParameterText] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    launches: list[LaunchText] = field(default_factory=list)

    def param(self, name: str, default: int, *values: int) -> str:
        """Add a parameter, tunable if it has several values, and return its name."""
        self.params.append(ParameterText(name + self.suffix, default, values or (default,)))
        return name + self.suffix

    def launch(self, kernel: str, grid: Sequence[str], block: Sequence[str], k: RegionKernel, when: str = "") -> None:
        self.launches.append(LaunchText(kernel, tuple(grid), tuple(block), k.arguments, when))


@dataclass(frozen=True)
class Level:
    """An entry of a menu."""

    name: str
    idea: str
    write: Callable[[Region, str, Naming, str], RegionText]


THREADS = (128, 256, 512, 1024)


def _elementwise_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = k.pointwise + "\n" + render("elementwise_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.n}, {block})",), (block,), k)
    return piece


def _elementwise_vector(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = k.pointwise + "\n" + render("elementwise_vector.cu.j2", k=k, p={"BLOCK": block})
    grid = f"ceil_div({k.n}, {block} * {k.width})"
    piece.launch(f"{name}<{block}>", (grid,), (block,), k)
    return piece


def _elementwise_tuned(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    p = {
        "BLOCK": piece.param("BLOCK", 512, *THREADS),
        "ITEMS": piece.param("ITEMS", 2, 1, 2, 4, 8),
    }
    piece.code = k.pointwise + "\n" + render("elementwise_vector.cu.j2", k=k, p=p)
    grid = f"ceil_div({k.n}, {p['BLOCK']} * {p['ITEMS']} * {k.width})"
    piece.launch(f"{name}<{p['BLOCK']}, {p['ITEMS']}>", (grid,), (p["BLOCK"],), k)
    return piece


def _rows_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("rows_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows}, {block})",), (block,), k)
    return piece


def _rows_block(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 512 if tuned else 256, *(THREADS if tuned else ()))
    piece.code = render("rows_block.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (k.rows,), (block,), k)
    return piece


def _rows_registers(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give rows that fit to the register kernel, all others to the streaming one."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block, items = _row_shape(region.reduced[-1].extent.size // k.width)
    p = {
        "BLOCK": piece.param("BLOCK", block, *THREADS),
        "ITEMS": piece.param("ITEMS", items, 1, 2, 4, 8),
    }
    registers = render("rows_registers.cu.j2", k=k, p=p)
    fits = f"{k.cols} % {k.width} == 0 and {k.cols} <= {p['BLOCK']} * {p['ITEMS']} * {k.width}"
    piece.launch(f"{name}<{p['BLOCK']}, {p['ITEMS']}>", (k.rows,), (p["BLOCK"],), k, fits)
    k.name = f"{name}_streaming"
    piece.code = registers + "\n" + render("rows_block.cu.j2", k=k, p={"BLOCK": p["BLOCK"]})
    piece.launch(f"{k.name}<{p['BLOCK']}>", (k.rows,), (p["BLOCK"],), k, f"not ({fits})")
    return piece


def _row_shape(vectors: int) -> tuple[int, int]:
    """Return threads, and vectors per thread, for rows of so many vectors: the fewest threads that hold them, four
    vectors each."""
    shapes = [(block, items) for items in (4, 8) for block in THREADS[1:]]
    return next((shape for shape in shapes if shape[0] * shape[1] >= vectors), (256, 4))


def _rows_tuned(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give each length of rows as many threads, and as many vectors a thread, as hold it; the longest are streamed."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block, once = piece.param("BLOCK", 512, 256, 512, 1024), piece.param("ONCE", 1, 0, 1)
    piece.code = render("rows_tiles.cu.j2", k=k)
    shortest, beyond = "", f"{k.aligned}"
    for most, group, rows, items in (
        (128, "32", "4", "4"),
        *((most, block, "1", f"{most} / {block}") for most in (1024, 2048, 3072, 4096)),
    ):
        threads = block if group == block else "128"
        fits = f"{k.cols} <= {most * k.width}"
        grid = (k.rows if rows == "1" else f"ceil_div({k.rows}, {rows})",)
        when = " and ".join(filter(None, (beyond, shortest, fits)))
        piece.launch(f"{name}<{group}, {rows}, {items}, {once}>", grid, (threads,), k, when)
        shortest = f"{k.cols} > {most * k.width}"
    k.name = f"{name}_streaming"
    piece.code += "\n" + render("rows_block.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{k.name}<{block}>", (k.rows,), (block,), k, f"not ({beyond}) or {shortest}")
    return piece


def _strips_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = render("strips_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows} * {k.cols}, {block})",), (block,), k)
    return piece


def _strips_vector(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = render("strips_vector.cu.j2", k=k, p={"BLOCK": block})
    grid = f"ceil_div({k.rows} * ({k.cols} // {k.width}), {block})"
    piece.launch(f"{name}<{block}>", (grid,), (block,), k, k.aligned)
    _add_scalar(piece, k, block)
    return piece


def _strips_hoisted(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("rows_tiles.cu.j2", k=k)
    _add_tiles(piece, k, block, 8, "4", "0", k.aligned)
    _add_scalar(piece, k, block)
    return piece


def _strips_tuned(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Choose by the length of a strip where something is the same all along it, else by how much there is to do."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block, items = piece.param("BLOCK", 128, 64, 128, 256), piece.param("ITEMS", 2, 1, 2, 4)
    once = piece.param("ONCE", 1, 0, 1)
    if _has_invariants(region):
        piece.code = render("rows_tiles.cu.j2", k=k)
        short = f"{k.cols} <= 8 * {items} * {k.width}"
        _add_tiles(piece, k, block, 8, items, once, f"{k.aligned} and {short}")
        _add_tiles(piece, k, block, 16, items, once, f"{k.aligned} and not ({short})")
    else:
        small = piece.param("SMALL", 64, 32, 64, 128)
        piece.code = render("strips_vector.cu.j2", k=k, p={"BLOCK": "THREADS", "ITEMS": "EACH", "ONCE": "STREAM"})
        vectors = f"{k.rows} * ({k.cols} // {k.width})"
        few = f"{vectors} <= sm_count * 256"
        for threads, each, when in ((small, "1", few), (block, items, f"not ({few})")):
            grid, kernel = f"ceil_div({vectors}, {threads} * {each})", f"{name}<{threads}, {each}, {once}>"
            piece.launch(kernel, (grid,), (threads,), k, f"{k.aligned} and {when}")
    _add_scalar(piece, k, block)
    return piece


def _add_tiles(piece: RegionText, k: RowsKernel, block: str, group: int, items: str, once: str, when: str) -> None:
    grid = f"ceil_div({k.rows}, {block} // {group}) * ceil_div({k.cols} // {k.width}, {group} * {items})"
    piece.launch(f"{k.name}<{group}, {block} / {group}, {items}, {once}>", (grid,), (block,), k, when)


def _add_scalar(piece: RegionText, k: RowsKernel, block: str) -> None:
    """Add the kernel for strips that are no whole, aligned vectors."""
    aligned = k.aligned
    k.name = f"{k.name}_scalar"
    piece.code += "\n" + render("strips_naive.cu.j2", k=k, p={"BLOCK": block})
    grid = f"ceil_div({k.rows} * {k.cols}, {block})"
    piece.launch(f"{k.name}<{block}>", (grid,), (block,), k, f"not ({aligned})")


def _columns(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    p = {
        "BX": piece.param("BX", 32, *((32, 64, 128) if tuned else ())),
        "BY": piece.param("BY", 16 if tuned else 8, *((2, 4, 8, 16) if tuned else ())),
    }
    if tuned:
        piece.where.append(f"{p['BX']} * {p['BY']} <= 1024")
    piece.code = render("rows_columns.cu.j2", k=k, p=p)
    grid = (f"ceil_div({k.rows}, {p['BX']})",)
    piece.launch(f"{name}<{p['BX']}, {p['BY']}>", grid, (p["BX"], p["BY"]), k)
    return piece


def _product_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("product_naive.cu.j2", k=k, p={"BLOCK": block})
    grid = (f"ceil_div({k.N}, {block}) * {k.M}", "1", k.L)
    piece.launch(f"{name}<{block}>", grid, (block,), k)
    return piece


def _product_tiled(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    plain = {"BM": (64,), "BN": (64,), "BK": (16,), "TM": (4,), "TN": (4,)}
    wide = {"BM": (128, 64, 128), "BN": (128, 64, 128), "BK": (8, 8, 16), "TM": (8,), "TN": (8,), "BLOCKS": (2, 1, 2)}
    p = {n: piece.param(n, *values) for n, values in (wide if tuned else plain).items()}
    threads = f"({p['BM']} // {p['TM']}) * ({p['BN']} // {p['TN']})"
    piece.code = render(
        "product_tiled.cu.j2", k=k, p=p, prefetch=tuned,
        a_order=_order(p["BM"], p["BK"], k.a_fast), b_order=_order(p["BN"], p["BK"], k.b_fast),
    )  # fmt: skip
    grid = (f"ceil_div({k.N}, {p['BN']})", f"ceil_div({k.M}, {p['BM']})", k.L)
    kernel = f"{name}<{', '.join(p.values())}>"
    piece.launch(kernel, grid, (threads,), k)
    return piece


def _order(rows: str, depth: str, rows_fast: bool) -> str:
    if rows_fast:
        return f"make_layout(Int<{rows} * {depth}>{{}})"
    return f"make_layout(make_shape(Int<{depth}>{{}}, Int<{rows}>{{}}), make_stride(Int<{rows}>{{}}, Int<1>{{}}))"


ELEMENTWISE = (
    Level("naive", "one thread, one element", _elementwise_naive),
    Level("vectorised", "128-bit loads and stores, one vector a thread", _elementwise_vector),
    Level("tuned", "several 128-bit vectors in flight a thread, block and items tunable", _elementwise_tuned),
)
ROWS = (
    Level("naive", "one thread, one row", _rows_naive),
    Level("shuffle", "one block a row, combined with warp shuffles", _rows_block),
    Level(
        "registers", "rows read once with 128-bit loads and kept in registers, block and items tunable", _rows_registers
    ),
    Level(
        "tuned", "threads and vectors a thread chosen by the length of a row, each row kept in registers", _rows_tuned
    ),
)
STRIPS = (
    Level("naive", "one thread, one element", _strips_naive),
    Level("vectorised", "128-bit loads and stores of strips, one vector a thread", _strips_vector),
    Level("tuned", "several vectors of a strip in flight a thread, launch chosen by size, tunable", _strips_tuned),
)
STRIPS_HOISTED = (
    *STRIPS[:2],
    Level("hoisted", "what is the same all along a strip computed once for several vectors", _strips_hoisted),
    Level("tuned", "threads a strip chosen by its length, vectors and streaming tunable", _strips_tuned),
)
ROWS_STRIDED = (*ROWS[:2], Level("tuned", "one block a row, block size tunable", partial(_rows_block, tuned=True)))
COLUMNS = (
    Level("naive", "one thread, one result", _rows_naive),
    Level("tiled", "coalesced loads, eight threads share a reduction through shared memory", _columns),
    Level("tuned", "tile of results and threads a reduction tunable", partial(_columns, tuned=True)),
)
PRODUCT = (
    Level("naive", "one thread, one element of the result", _product_naive),
    Level("tiled", "64 x 64 tiles staged in shared memory, 4 x 4 results a thread", _product_tiled),
    Level(
        "prefetch",
        "two stages, 128-bit reads of them, next slice fetched meanwhile, tiles tunable",
        partial(_product_tiled, tuned=True),
    ),
)


def menu_of(region: Region) -> tuple[Level, ...]:
    """Return the menu that fits a region's memory order."""
    if region.kind is Kind.ELEMENTWISE:
        return ELEMENTWISE
    if region.kind is Kind.PRODUCT:
        return PRODUCT
    if region.kind is Kind.STRIPS:
        return STRIPS_HOISTED if _has_invariants(region) else STRIPS
    varying = [a for a in region.accesses if region.varies(a)]
    if not any(region.reduced[-1].stride(a).text == "1" for a in varying):
        return COLUMNS
    cols = region.reduced[-1].extent.size
    contiguous = all(
        region.reduced[-1].stride(a).text == "1" and a.offset.text == "0"
        and all(m.stride(a).size % cols == 0 for m in region.outer)
        for a in varying
    )  # fmt: skip
    return ROWS if len(region.reduced) == 1 and contiguous else ROWS_STRIDED


def _has_invariants(region: Region) -> bool:
    """Return whether something is computed that is the same all along a strip."""
    return any(not t.varies and t.access is None for t in region.terms.terms.values())


def write_variants(planner: Planner, last: Planner, name: str, taken: set[str]) -> tuple[Variant, ...]:
    """Return every variant of a plan's regions; the last region's menu gives the names, `last` the last kernel."""
    count = len(menu_of(planner.regions[-1]))
    return tuple(
        _variant(level, level == count - 1, last if level == count - 1 else planner, name, set(taken))
        for level in range(count)
    )


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
    source = write_file(
        idea, naming, [p for x in pieces for p in x.params], [w for x in pieces for w in x.where], planner.scratch,
        [launch for x in pieces for launch in x.launches], "\n".join(x.code for x in pieces), fast=planner.fast,
    )  # fmt: skip
    return Variant(chosen[-1].name, idea, source)
