"""Write the levels of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.windows.kernels import AxisText, ConvolutionKernel, PoolingKernel, WindowsKernel
from cutegen_core.propose.playbook.windows.values import Convolution, Pooling, Sliding
from cutegen_core.propose.playbook.writing import RegionText, render

FEW_FILTERS = 8
MOST_TAPS = 128
"""Of a window whose loops are unrolled."""


def convolution_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    return _naive(RegionText(suffix), ConvolutionKernel(region, name, naming), "convolution_naive.cu.j2")


def pooling_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    return _naive(RegionText(suffix), PoolingKernel(region, name, naming), "pooling_naive.cu.j2")


def convolution_tiled(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    piece, k = RegionText(suffix), ConvolutionKernel(region, name, naming)
    plain = {"BM": (64,), "BN": (64,), "BK": (16,), "TM": (4,), "TN": (4,)}
    wide = {"BM": (64, 64, 128), "BN": (128, 64, 128), "BK": (8, 8, 16), "TM": (8,), "TN": (8,), "BLOCKS": (2, 1, 2)}
    p = {n: piece.param(n, *values) for n, values in (wide if tuned else plain).items()}
    threads = f"({p['BM']} // {p['TM']}) * ({p['BN']} // {p['TN']})"
    if tuned:
        piece.where.append(f"{threads} % {p['BN']} == 0")
    piece.code = render("convolution_tiled.cu.j2", k=k, p=p, prefetch=tuned)
    columns, phases = k.grid
    depth = k.G if phases == "1" else f"{k.G} * {phases}"
    grid = (f"ceil_div({columns}, {p['BN']})", f"ceil_div({k.M}, {p['BM']})", depth)
    piece.launch(f"{name}<{', '.join(p.values())}>", grid, (threads,), k)
    return piece


def direct(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    """Write the kernel for the traced window, and the naive one for any other that a workload may have."""
    piece, sliding = RegionText(suffix), region.sliding
    pooling = isinstance(sliding, Pooling)
    k: PoolingKernel | ConvolutionKernel = (PoolingKernel if pooling else ConvolutionKernel)(region, name, naming)
    w, h = k.axes[0], k.axes[1] if len(k.axes) > 1 else None
    items = _items(h) if h else (1,)
    p = {
        "BX": piece.param("BX", 32, *((32, 64, 128) if tuned else ())),
        "BY": piece.param("BY", 4, *((2, 4, 8) if tuned else ())),
        "ITEMS": piece.param("ITEMS", items[-1], *(items if tuned else ())),
    }
    piece.code = render("windows_direct.cu.j2", k=k)
    size = (w.window.taps.size, h.window.taps.size if h else 1)
    others = "1" if len(k.axes) < 3 else k.axes[2].places
    below = (
        f"ceil_div({h.places}, {p['BY']} * {p['ITEMS']}) * {k.N} * {k.C}"
        if h
        else f"ceil_div({k.N} * {k.C}, {p['BY']})"
    )
    grid = f"ceil_div({w.places}, {p['BX']}) * {below}{f' * {others}' if others != '1' else ''}"
    named = [(axis.taps, n) for axis, n in zip((w, h), size, strict=True) if axis and not axis.taps.isdigit()]
    when = " and ".join(f"{text} == {n}" for text, n in named)
    kernel = f"{k.name}<{', '.join((*p.values(), *map(str, size)))}>"
    piece.launch(kernel, (grid,), (p["BX"], p["BY"]), k, when)
    if when:
        k.name = f"{name}_any"
        block = piece.param("BLOCK", 256)
        piece.code += "\n" + render("convolution_naive.cu.j2", k=k, p={"BLOCK": block})
        piece.launch(f"{k.name}<{block}>", (_elements(k, block),), (block,), k, f"not ({when})")
    return piece


def _items(axis: AxisText) -> tuple[int, ...]:
    """Return how many results a thread may make below one another: one where their windows share nothing."""
    window = axis.window
    reach = (window.taps.size - 1) * window.dilation.size + 1
    if reach <= window.stride.size:
        return (1,)
    return (1, 2, 4) if reach + 3 * window.stride.size <= 24 else (1, 2)


def _elements(k: WindowsKernel, block: str) -> str:
    return f"ceil_div({k.N} * {k.C} * {k.P}, {block})"


def is_direct(sliding: Sliding) -> bool:
    """Return whether each thread should walk over its own window: few filters share what a window sees."""
    if isinstance(sliding, Convolution) and (sliding.transposed or sliding.filters.size >= FEW_FILTERS):
        return False
    steps = (extent for w in sliding.windows for extent in (w.stride, w.dilation, w.padding))
    sizes = [w.taps.size for w in sliding.windows[-2:]]
    return all(extent.text.isdigit() for extent in steps) and sizes[0] * sizes[-1] <= MOST_TAPS


def _naive(piece: RegionText, k: WindowsKernel, template: str) -> RegionText:
    block = piece.param("BLOCK", 256)
    piece.code = render(template, k=k, p={"BLOCK": block})
    piece.launch(f"{k.name}<{block}>", (_elements(k, block),), (block,), k)
    return piece


Writer = Callable[[Region, str, Naming, str], RegionText]

CONVOLUTION: tuple[tuple[str, str, Writer], ...] = (
    ("naive", "one thread, one element of the result", convolution_naive),
    ("tiled", "implicit product: 64 x 64 tiles gathered into shared memory, 4 x 4 results a thread", convolution_tiled),
    (
        "prefetch",
        "two stages, 128-bit reads of them, next slice gathered meanwhile, tiles tunable",
        partial(convolution_tiled, tuned=True),
    ),
)
_DIRECT: tuple[tuple[str, str, Writer], ...] = (
    ("direct", "window unrolled, several results below one another a thread, which share what they read", direct),
    ("tuned", "the same, with block and results a thread tunable", partial(direct, tuned=True)),
)
FEW = (CONVOLUTION[0], *_DIRECT)
POOLING: tuple[tuple[str, str, Writer], ...] = (
    ("naive", "one thread, one element of the result", pooling_naive), *_DIRECT
)  # fmt: skip


def levels_of(region: Region) -> tuple[tuple[str, str, Writer], ...]:
    """Return (name, idea, writer) of every level of a convolution or pooling."""
    assert region.sliding is not None
    alone = is_direct(region.sliding)
    if isinstance(region.sliding, Pooling):
        return POOLING if alone else POOLING[:1]
    return FEW if alone else CONVOLUTION
