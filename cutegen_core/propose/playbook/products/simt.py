"""Write products on the SIMT path: one element a thread, tiles in shared memory, tiles through cp.async stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.kernels import ProductKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.writing import RegionText, render
from cutegen_core.records.problem import ITEMSIZE

WriteProduct = Callable[[Region, str, Naming, str], RegionText]
RASTERS = (8, 1, 4, 8, 16)
"""Tile rows that blocks which run together work on: the default, then what is tried."""


def naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("product_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (all_of(f"ceil_div({k.N}, {block})", k.M, k.L),), (block,), k)
    return piece


def tiled(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    p = {n: piece.param(n, value) for n, value in {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4}.items()}
    threads = f"({p['BM']} // {p['TM']}) * ({p['BN']} // {p['TN']})"
    piece.code = render("product_tiled.cu.j2", k=k, p=p)
    smem = f"({p['BM']} + {p['BN']} + 2) * {p['BK']} * {4 if k.ctype == 'float' else 8}"
    piece.launch(f"{name}<{', '.join(p.values())}>", grid_of(k, p), (threads,), k, smem=smem)
    return piece


def multistage(region: Region, name: str, naming: Naming, suffix: str, split: str = "", marks: str = "") -> RegionText:
    """Write the kernel whose operands and sums have one type of 4 or 8 bytes: cp.async converts nothing."""
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    if split:
        k.pass_count()
    size = ITEMSIZE[k.dtype]
    width, each = VECTOR_BYTES // size, 2 * VECTOR_BYTES // size
    rows, columns = ((128, 64, 128), (128, 64, 128, 256)) if size == 4 else ((64,), (64,))
    p = {"BM": piece.param("BM", *rows), "BN": piece.param("BN", *columns), "BK": piece.param("BK", 16, 8, 16, 32)}
    p |= {"STAGES": piece.param("STAGES", 2, 2, 3, 4), "WIDE": piece.param("WIDE", 1, 1, 2)}
    p["RASTER"] = piece.param("RASTER", *RASTERS)
    threads = f"{p['BM']} * {p['BN']} // ({each * each} * {p['WIDE']})"
    sides = (("a", p["BM"], k.a_fast, k.M, "m_first"), ("b", p["BN"], k.b_fast, k.N, "n_first"))
    turned = [rows for _, rows, fast, _, _ in sides if not fast]
    if turned:
        p["TURN"] = piece.param("TURN", 1, 0, 1)
    extra = f" + {p['TURN']} * ({' + '.join(turned)})" if turned else ""
    smem = f"({p['BM']} + {p['BN']} + {2 * width}{extra}) * {p['BK']} * {p['STAGES']} * {size}"
    piece.where += [f"{smem} <= smem_max", f"{p['BN']} % ({8 * each} * {p['WIDE']}) == 0"]
    piece.where.append(f"{threads} * {width} <= {p['BK']} * min({p['BM']}, {p['BN']})")
    options = {"width": width, "each": each, "split": split, "marks": marks, "sides": sides, "turned": turned}
    piece.code = render("product_multistage.cu.j2", k=k, p=p, **options)
    for v, when in k.widths(width):
        values = ", ".join([*p.values(), str(v), *([split] if split else [])])
        piece.launch(f"{name}<{values}>", grid_of(k, p, split, marks), (threads,), k, when, smem)
    return piece


def all_of(*counts: str) -> str:
    """Return the product of numbers of the plan."""
    return " * ".join(count for count in counts if count != "1") or "1"


def grid_of(k: ProductKernel, p: Mapping[str, str], split: str = "", marks: str = "") -> tuple[str, ...]:
    """Return the grid: a block for each tile of each share of each product, all in the first extent, since the others
    end at 65535. Blocks that skip slices by marks have the products in the third."""
    tiles = f"ceil_div({k.N}, {p['BN']})", f"ceil_div({k.M}, {p['BM']})"
    return (all_of(*tiles), "1", k.L) if marks else (all_of(*tiles, k.L, split or "1"),)
