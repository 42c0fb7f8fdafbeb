"""Write products on tensor cores: mma of a warp with cp.async and ldmatrix, wgmma of warp groups with TMA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen_core.propose.playbook.kernels import MappedProduct, ProductKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.products.simt import RASTERS, WriteProduct, grid_of
from cutegen_core.propose.playbook.regions import Mode, Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, TensorMapText, render

OPERATION = {"float16": "SM80_16x8x16_F32F16F16F32_TN", "bfloat16": "SM80_16x8x16_F32BF16BF16F32_TN"}
VECTOR, _FLOATS = 8, 4
"""Halves and floats of a vector."""


def sm80(region: Region, name: str, naming: Naming, suffix: str, split: str = "") -> RegionText:
    """Write the kernel of halves; where they are no whole vectors, they are copied element by element."""
    piece, k = RegionText(suffix), _counted(region, name, naming, split)
    p = _tile_params(piece, region, 64, (64, 128, 256), most_across=2)
    p["RASTER"] = piece.param("RASTER", *RASTERS)
    types = {"element": ELEMENT[k.dtype], "operation": OPERATION[k.dtype], "vector": VECTOR}
    piece.code = render("product_sm80.cu.j2", k=k, p=p, split=split, marks="", **types)
    piece.where.append(f"{p['BM']} * {p['BN']} <= 128 * {_threads(p)}")
    _launch(piece, k, p, split, f"({p['BM']} + {p['BN']}) * {p['BK']} * {p['STAGES']} * 2", VECTOR)
    return piece


def tf32_in_three(
    region: Region, name: str, naming: Naming, suffix: str, split: str = "", marks: str = "", side: int = 128
) -> RegionText:
    """Write the kernel of float32: each number is two of tensor-core precision; infinities and NaN stay.

    Args:
        side: rows and columns of the default tile, where the product is no smaller.
    """
    piece, k = RegionText(suffix), _counted(region, name, naming, split)
    p = _tile_params(piece, region, 32, (64, 128), most_across=4, side=side)
    p["RASTER"] = piece.param("RASTER", *RASTERS)
    piece.code = render("product_3xtf32.cu.j2", k=k, p=p, split=split, marks=marks)
    piece.where.append(f"{p['BM']} * {p['BN']} <= 64 * {_threads(p)}")
    rows = f"{p['BM']} + {p['BN']} + {8 * (k.a_fast + k.b_fast)}"
    _launch(piece, k, p, split, f"({rows}) * {p['BK']} * {p['STAGES']} * 4", _FLOATS, marks)
    return piece


def _tile_params(
    piece: RegionText, region: Region, terms: int, across: Sequence[int], *, most_across: int, side: int = 128
) -> dict[str, str]:
    """Add the parameters of a tile, and of the warps that share it; a short side has a tile that just holds it."""
    rows, columns = (min(side, _tile(mode)) for mode in region.outer[-2:])
    # Two warps down a small tile: a quarter of it each, so that four of them are on a multiprocessor.
    warps_down = 4 if (rows, columns) == (128, 32) else 2 if side == 64 else max(1, rows // 64)
    return {
        "BM": piece.param("BM", rows, *sorted({rows, 64, 128})),
        "BN": piece.param("BN", columns, *sorted({columns, *across})),
        "BK": piece.param("BK", terms, terms // 2, terms),
        "STAGES": piece.param("STAGES", 3, 2, 3, 4),
        "DOWN": piece.param("DOWN", warps_down, 1, 2, 4),
        "ACROSS": piece.param("ACROSS", min(most_across, columns // 32), 1, 2, 4),
    }


def _tile(side: Mode) -> int:
    return next((tile for tile in (32, 64) if side.extent.size <= tile), 128)


def _counted(region: Region, name: str, naming: Naming, split: str) -> ProductKernel:
    k = ProductKernel(region, name, naming)
    if split:
        k.pass_count()
    return k


def _threads(p: Mapping[str, str]) -> str:
    return f"32 * {p['DOWN']} * {p['ACROSS']}"


def _launch(
    piece: RegionText, k: ProductKernel, p: Mapping[str, str], split: str, smem: str, vector: int, marks: str = ""
) -> None:
    """Add the launch where operands are whole vectors, and the one for all others."""
    threads = _threads(p)
    piece.where += [
        f"{smem} <= smem_max",
        f"{p['BM']} % (32 * {p['DOWN']}) == 0 and {p['BN']} % (32 * {p['ACROSS']}) == 0",
        f"{threads} <= {p['BM']} * {p['BK']} // {vector} and {threads} <= {p['BN']} * {p['BK']} // {vector}",
    ]
    for v, when in k.widths(vector):
        values = ", ".join([*p.values(), str(v), *([split] if split else [])])
        piece.launch(f"{k.name}<{values}>", grid_of(k, p, split, marks), (threads,), k, when, smem)


def can_be_mapped(region: Region, *, copies: bool) -> bool:
    """Return whether TMA reaches the operands, or their copies, and the result: one batch, contiguous, halves."""
    *batch, rows, columns = region.outer
    (inner,) = region.reduced
    assert region.a is not None
    assert region.b is not None
    sides = ((region.a, (rows, inner)), (region.b, (columns, inner)))
    reached = copies or all(
        any(m.stride(access).text == "1" for m in modes)
        and not any(m.stride(access).text == "0" and not m.extent.single for m in modes)
        for access, modes in sides
    )
    return reached and len(batch) <= 1 and region.stores[0].out.dtype == region.a.dtype


def sm90(
    region: Region, name: str, naming: Naming, suffix: str, tile: tuple[int, int], others: WriteProduct
) -> RegionText:
    """Write the kernel of halves that TMA can bring.

    Args:
        tile: warp groups and columns of the default tile.
        others: writes the kernel for halves that are no whole vectors.
    """
    piece, k = RegionText(suffix), MappedProduct(region, name, naming)
    groups, columns = tile
    p = {"GROUPS": piece.param("GROUPS", groups, 1, 2), "BN": piece.param("BN", columns, 64, 128, 192, 256)}
    stages = 4 if columns > 128 else 6
    p |= {"STAGES": piece.param("STAGES", stages, 2, 3, 4, 5, 6), "RASTER": piece.param("RASTER", 16, 4, 8, 16)}
    smem = f"{p['STAGES']} * (64 * {p['GROUPS']} + {p['BN']}) * 128 + {p['GROUPS']} * 16384 + 2048"
    piece.where += [f"{smem} <= smem_max", f"{p['GROUPS']} == 2 or {p['BN']} <= 128"]
    maps = {side: naming.fresh(f"{side}_map") for side in ("a", "b", "out")}
    batched = _add_maps(piece, k, maps, p)
    k.pass_count()
    # Where columns of the second operand are whole vectors, rows of the result are.
    rows_whole = "" if k.b_fast else f"{k.N} % {VECTOR} == 0"
    flag = k.pass_number("rows_whole", rows_whole, "bool") if rows_whole else ""
    element = ELEMENT[k.dtype]
    piece.code = render("product_wgmma.cu.j2", k=k, p=p, maps=maps, batched=batched, element=element, rows_whole=flag)
    piece.includes += ["cutlass/arch/barrier.h", "cutlass/arch/reg_reconfig.h"]
    tiles = f"ceil_div({k.M}, 64 * {p['GROUPS']}) * ceil_div({k.N}, {p['BN']}) * {k.L}"
    grid, block = (f"min(sm_count, {tiles})",), (f"128 * ({p['GROUPS']} + 1)",)
    kernel, whole = f"{name}<{', '.join(p.values())}>", k.aligned(VECTOR)
    mapped = LaunchText(kernel, grid, block, (*maps.values(), *k.arguments), rows_whole, smem)
    launches = [mapped]
    if rows_whole:  # no map has other rows: the kernel writes these itself, and takes any map in its place
        stored = (maps["a"], maps["b"], maps["a"], *k.arguments)
        launches.append(replace(mapped, args=stored, when=f"not ({rows_whole})"))
    if whole:
        any_size = others(region, f"{name}_any", naming, f"_ANY{suffix}")
        piece.add_code(any_size.code)
        piece.params += any_size.params
        launches = [one.only(whole) for one in launches]
        launches += [replace(launch, when=f"not ({whole})") for launch in any_size.launches]
    piece.launches += launches
    return piece


def map_strides(access: TensorAccess, modes: Sequence[Mode]) -> tuple[str, ...]:
    """Return the strides of a tensor map, without the fastest mode's; a mode of one element may have any that is whole
    vectors, and 0 is none."""
    return tuple(str(VECTOR) if m.extent.single else m.stride(access).text for m in modes[1:])


def _add_maps(piece: RegionText, k: ProductKernel, maps: Mapping[str, str], p: Mapping[str, str]) -> dict[str, bool]:
    """Add the tensor maps of operands and result; return which have a batch."""
    *batch, rows, columns = k.region.outer
    (inner,) = k.region.reduced
    a, b, out = k.region.a, k.region.b, k.region.stores[0].out
    assert a is not None
    assert b is not None
    found: dict[str, bool] = {}
    for side, access, across, down, box in (
        ("a", a, *((rows, inner, "64") if k.a_fast else (inner, rows, f"64 * {p['GROUPS']}"))),
        ("b", b, *((columns, inner, "64") if k.b_fast else (inner, columns, p["BN"]))),
        ("out", out, columns, rows, "64"),
    ):
        several = [m for m in batch if m.stride(access).text != "0"]
        found[side] = bool(several)
        modes = (across, down, *several)
        boxes, dims = ("64", box, *("1" for _ in several)), tuple(m.extent.text for m in modes)
        strides = map_strides(access, modes)
        promotion = "none" if side == "out" else "256B"
        piece.maps.append(
            TensorMapText(maps[side], access.tensor, boxes, dims, strides, access.offset.text, "128B", promotion)
        )
    return found
