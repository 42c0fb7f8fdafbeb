"""Write regions whose kernel is the same for every shape, or falls back to a second one."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import ElementwiseKernel, RowsKernel, ScanKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.rows.vectors import RowVectors
from cutegen_core.propose.playbook.writing import RegionText, render

THREADS = (128, 256, 512, 1024)
WARP = 32
MOST_ITEMS = 8
"""Vectors of a row that a thread keeps in registers."""


def elementwise_naive(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    block = piece.param("BLOCK", 256, *(THREADS if tuned else ()))
    piece.code = k.pointwise + "\n" + render("elementwise_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.n}, {block})",), (block,), k)
    return piece


def elementwise_vector(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = k.pointwise + "\n" + render("elementwise_vector.cu.j2", k=k, p={"BLOCK": block})
    grid = f"ceil_div({k.n}, {block} * {k.width})"
    piece.launch(f"{name}<{block}>", (grid,), (block,), k)
    return piece


def elementwise_tuned(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ElementwiseKernel(region, name, naming)
    read_by_vector = sum(t.flat for t in k.inputs)
    p = {
        "BLOCK": piece.param("BLOCK", 128, *THREADS),
        "ITEMS": piece.param("ITEMS", 1 if read_by_vector > 1 else 2, 1, 2, 4, 8),  # loads while a thread computes
    }
    piece.code = k.pointwise + "\n" + render("elementwise_vector.cu.j2", k=k, p=p)
    grid = f"ceil_div({k.n}, {p['BLOCK']} * {p['ITEMS']} * {k.width})"
    piece.launch(f"{name}<{p['BLOCK']}, {p['ITEMS']}>", (grid,), (p["BLOCK"],), k)
    return piece


def rows_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("rows_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows}, {block})",), (block,), k)
    return piece


def rows_block(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    return block_a_row(RegionText(suffix), RowsKernel(region, name, naming), tuned=tuned)


def block_of(parts: int, most: int) -> int:
    """Return the threads of a block, a power of two, of which each has a part, or several where there are `most`."""
    return min(most, max(WARP, 1 << (parts - 1).bit_length()))


def block_a_row(piece: RegionText, k: RowsKernel, *, tuned: bool) -> RegionText:
    """Write the kernel that holds for rows of every length; a short row gets a thread an element."""
    usual = block_of(k.region.length, 512 if tuned else 256)
    block = piece.param("BLOCK", usual, *((WARP, 2 * WARP, *THREADS) if tuned else ()))
    piece.code = render("rows_block.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{k.name}<{block}>", (k.rows,), (block,), k)
    return piece


def rows_registers(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give rows that fit to the register kernel, all others to the streaming one, which is the only one for longer
    rows."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    vectors = region.reduced[-1].extent.size // k.width
    if vectors > THREADS[-1] * MOST_ITEMS:
        return block_a_row(piece, k, tuned=True)
    block, items = _row_shape(vectors)
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
    shapes = [(block, items) for items in (4, MOST_ITEMS) for block in THREADS[1:]]
    return next((shape for shape in shapes if shape[0] * shape[1] >= vectors), (256, 4))


def columns(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    p = {
        "BX": piece.param("BX", 32, *((32, 64, 128) if tuned else ())),
        "BY": piece.param("BY", 16 if tuned else 8, *((2, 4, 8, 16) if tuned else ())),
    }
    if tuned:
        piece.where.append(f"{p['BX']} * {p['BY']} <= 1024")
    piece.code = render("rows_columns.cu.j2", k=k, p=p, split="")
    grid = (f"ceil_div({k.rows}, {p['BX']})",)
    piece.launch(f"{name}<{p['BX']}, {p['BY']}>", grid, (p["BX"], p["BY"]), k)
    return piece


def scan_naive(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), ScanKernel(region, name, naming)
    block = piece.param("BLOCK", 128, *((32, 64, 128, 256) if tuned else ()))
    piece.code = render("scan_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows}, {block})",), (block,), k)
    return piece


def scan_block(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    """Give a thread a vector at a time; rows that are no whole, aligned vectors begin within one."""
    piece, k = RegionText(suffix), ScanKernel(region, name, naming)
    block = piece.param("BLOCK", 256, *((128, 256, 512, 1024) if tuned else ()))
    piece.code = render("scan_block.cu.j2", k=k, row_vectors=RowVectors(k), prefetch=tuned)
    piece.launch(f"{name}<{block}, {k.width}, true>", (k.rows,), (block,), k, k.aligned)
    piece.launch(f"{name}<{block}, {k.width}, false>", (k.rows,), (block,), k, f"not ({k.aligned})")
    return piece
