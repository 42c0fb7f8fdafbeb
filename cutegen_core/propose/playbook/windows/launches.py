"""Write the levels of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import VECTOR_BYTES
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.windows.geometry import Window, pinned
from cutegen_core.propose.playbook.windows.kernels import AxisText, ConvolutionKernel, PoolingKernel, grid_of
from cutegen_core.propose.playbook.windows.tensor_cores import Floats, tensor_cores
from cutegen_core.propose.playbook.windows.values import Convolution, Pooling, Sliding
from cutegen_core.propose.playbook.writing import Level, RegionText, render
from cutegen_core.records.problem import ITEMSIZE

FEW_FILTERS = 8
LEAST_ASYNC_BYTES = 4
"""That cp.async copies."""
MOST_BLOCKS = 65535
"""Of a grid along its second and third dimension."""
MOST_TAPS = 128
"""Of a window whose loops are unrolled."""


def naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    return _add_naive(RegionText(suffix), _kernel_of(region, name, naming))


def convolution_tiled(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), ConvolutionKernel(region, name, naming)
    plain = {"BM": (64,), "BN": (64,), "BK": (16,), "TM": (4,), "TN": (4,)}
    wide = {"BM": (64, 64, 128), "BN": (128, 64, 128), "BK": (8, 8, 16), "TM": (8,), "TN": (8,), "BLOCKS": (2, 1, 2)}
    p = {n: piece.param(n, *values) for n, values in (wide if tuned else plain).items()}
    threads = f"({p['BM']} // {p['TM']}) * ({p['BN']} // {p['TN']})"
    if tuned:
        piece.where.append(f"{threads} % {p['BN']} == 0")
    piece.code = render("convolution_tiled.cu.j2", k=k, p=p, prefetch=tuned)
    piece.launch(f"{name}<{', '.join(p.values())}>", grid_of(k, p), (threads,), k)
    return piece


def direct(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    """Write the kernel for the traced windows, and the naive one for any other that a workload may have."""
    k = _pinned(region, name, naming)
    w, *others = k.axes
    items = _items(others[0]) if others else (1,)
    piece = RegionText(suffix)
    p = {
        "BX": piece.param("BX", 32, *((32, 64, 128) if tuned else ())),
        "BY": piece.param("BY", 4, *((2, 4, 8) if tuned else ())),
        "ITEMS": piece.param("ITEMS", items[-1], *(items if tuned else ())),
    }
    piece.code = render("windows_direct.cu.j2", k=k)
    blocks = [f"ceil_div({w.places}, {p['BX']})"]
    if others:
        blocks += [f"ceil_div({others[0].places}, {p['BY']} * {p['ITEMS']})", *(a.places for a in others[1:]), k.N, k.C]
    else:
        blocks.append(f"ceil_div({k.N} * {k.C}, {p['BY']})")
    return _launch_pinned(piece, k, p, region, naming, (" * ".join(blocks),))


def staged(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Write the kernel that stages what windows see, for the traced windows, and the naive one for any other."""
    piece, k = RegionText(suffix), _pinned(region, name, naming)
    w, *others = k.axes
    p = {"BX": piece.param("BX", 64, 32, 64, 128), "BY": piece.param("BY", 4, 2, 4, 8)}
    p["ITEMS"] = piece.param("ITEMS", 8, 2, 4, 8, 16) if others else piece.param("ITEMS", 4, 1, 2, 4, 8)
    size, planes = ITEMSIZE[k.dtype], f"{k.N} * {k.C}"
    vector = VECTOR_BYTES // size
    tiles: tuple[str, ...]
    if others:
        across, copiers = p["BX"], f"{p['BX']} * {p['BY']}"
        rows = f"(({p['BY']} * {p['ITEMS']} - 1) * {others[0].stride} + {others[0].reach})"
        tiles = f"ceil_div({others[0].places}, {p['BY']} * {p['ITEMS']})", f"min({planes}, {MOST_BLOCKS})"
    else:
        across, copiers, rows = f"{p['BX']} * {p['ITEMS']}", p["BX"], "1"
        tiles = (f"min(ceil_div({planes}, {p['BY']}), {MOST_BLOCKS})",)
    columns = f"ceil_div(({across} - 1) * {w.stride} + {w.reach + -int(w.padding) % vector}, {vector}) * {vector}"
    smem = f"ceil_div({columns} * {rows}, {copiers} * {vector}) * {copiers} * {VECTOR_BYTES}"
    smem += "" if others else f" * {p['BY']}"
    piece.where.append(f"{smem} <= smem_max")
    piece.code = render("windows_staged.cu.j2", k=k, asynchronous=size >= LEAST_ASYNC_BYTES)
    grid = (f"ceil_div({w.places}, {across})", *tiles)
    return _launch_pinned(piece, k, p, region, naming, grid, smem)


def _pinned(region: Region, name: str, naming: Naming) -> PoolingKernel | ConvolutionKernel:
    assert region.sliding is not None
    sliding = replace(region.sliding, windows=tuple(map(pinned, region.sliding.windows)))
    return _kernel_of(replace(region, sliding=sliding), name, naming)


def _launch_pinned(
    piece: RegionText, k: PoolingKernel | ConvolutionKernel, p: Mapping[str, str], region: Region, naming: Naming,
    grid: Sequence[str], smem: str = "",
) -> RegionText:  # fmt: skip
    assert region.sliding is not None
    when = _as_traced(region.sliding.windows)
    kernel = f"{k.name}<{', '.join(p.values())}>"
    piece.launch(kernel, grid, (p["BX"], p["BY"]), k, when, smem)
    if when:
        _add_naive(piece, _kernel_of(region, f"{k.name}_any", naming), f"not ({when})")
    return piece


def _kernel_of(region: Region, name: str, naming: Naming) -> PoolingKernel | ConvolutionKernel:
    kind = PoolingKernel if isinstance(region.sliding, Pooling) else ConvolutionKernel
    return kind(region, name, naming)


def _as_traced(windows: Sequence[Window]) -> str:
    """Return the condition of the plan under which windows are the traced ones; "" if they are always."""
    numbers = [extent for window in windows for extent in window.numbers if not extent.text.isdigit()]
    return " and ".join(dict.fromkeys(f"{extent.text} == {extent.size}" for extent in numbers))


def _items(axis: AxisText) -> tuple[int, ...]:
    """Return how many results a thread may make below one another: one where their windows share nothing."""
    window = axis.window
    reach = (window.taps.size - 1) * window.dilation.size + 1
    if reach <= window.stride.size:
        return (1,)
    return (1, 2, 4) if reach + 3 * window.stride.size <= 24 else (1, 2)


def is_direct(sliding: Sliding) -> bool:
    """Return whether each thread should walk over its own window: few filters share what a window sees."""
    if isinstance(sliding, Convolution) and (sliding.transposed or sliding.filters.size >= FEW_FILTERS):
        return False
    sizes = [w.taps.size for w in sliding.windows[-2:]]
    return prod(sizes) <= MOST_TAPS


def _shares(sliding: Sliding) -> bool:
    """Return whether windows that lie side by side share what they see, so that it pays to stage it; not in 3D."""
    if len(sliding.windows) > 2:
        return False
    apart = (w.stride.size > (w.taps.size - 1) * w.dilation.size for w in sliding.windows)
    return not all(apart) and not (isinstance(sliding, Convolution) and not sliding.depth.single)


def _add_naive(piece: RegionText, k: PoolingKernel | ConvolutionKernel, when: str = "") -> RegionText:
    template = "pooling_naive.cu.j2" if isinstance(k, PoolingKernel) else "convolution_naive.cu.j2"
    block = piece.param("BLOCK", 256)
    piece.add_code(render(template, k=k, p={"BLOCK": block}))
    piece.launch(f"{k.name}<{block}>", (f"ceil_div({k.N} * {k.C} * {k.P}, {block})",), (block,), k, when)
    return piece


_NAIVE = Level("naive", "one thread, one element of the result", naive)
_TILED = Level(
    "tiled", "implicit product: 64 x 64 tiles gathered into shared memory, 4 x 4 results a thread", convolution_tiled
)
_PREFETCH = Level(
    "prefetch",
    "two stages, 128-bit reads of them, next slice gathered meanwhile, tiles tunable",
    partial(convolution_tiled, tuned=True),
)
_TENSOR_CORES = Level(
    "tensor cores",
    "channels packed into vectors, slices of taps by cp.async through swizzled stages, ldmatrix, mma, tiles tunable",
    tensor_cores,
)
_IN_THREE = Level(
    "3xTF32",
    "each float as two numbers that tensor cores multiply: channels packed into vectors, three products by mma m16n8k8"
    " from cp.async stages, summed in float32; tiles tunable",
    tensor_cores,
)
_ROUNDED = Level(
    "TF32",
    "floats rounded to TF32, as the problem allows, packed channels through cp.async stages to mma, tiles tunable",
    partial(tensor_cores, floats=Floats.ROUNDED),
)
_DIRECT = Level(
    "direct", "window unrolled, several results below one another a thread, which share what they read", direct
)
_STAGED = Level(
    "staged",
    "what the windows of a block see staged in shared memory by cp.async, edges filled there, block and items tunable",
    staged,
)
_TUNED = Level("tuned", "the same, with block and results a thread tunable", partial(direct, tuned=True))


def menu(region: Region, target: Target) -> tuple[Level, ...]:
    """Return the kernels of a convolution or pooling, simplest first."""
    sliding = region.sliding
    assert sliding is not None
    if is_direct(sliding):
        return _NAIVE, _DIRECT, _STAGED if _shares(sliding) else _TUNED
    if isinstance(sliding, Pooling):
        return (_NAIVE,)
    types = {access.dtype for access in (region.a, region.b) if access is not None}
    if types in ({"float16"}, {"bfloat16"}):
        return _NAIVE, _TILED, _TENSOR_CORES
    if types == {"float32"}:
        return _NAIVE, _TILED, _ROUNDED if target.allows("tf32") else _IN_THREE
    return _NAIVE, _TILED, _PREFETCH
