"""Write the levels of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.windows.kernels import ConvolutionKernel, PoolingKernel, WindowsKernel
from cutegen_core.propose.playbook.windows.values import Pooling
from cutegen_core.propose.playbook.writing import RegionText, render


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


def _naive(piece: RegionText, k: WindowsKernel, template: str) -> RegionText:
    block = piece.param("BLOCK", 256)
    piece.code = render(template, k=k, p={"BLOCK": block})
    piece.launch(f"{k.name}<{block}>", (f"ceil_div({k.N} * {k.C} * {k.P}, {block})",), (block,), k)
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
POOLING: tuple[tuple[str, str, Writer], ...] = (("naive", "one thread, one element of the result", pooling_naive),)


def levels_of(region: Region) -> tuple[tuple[str, str, Writer], ...]:
    """Return (name, idea, writer) of every level of a convolution or pooling."""
    return POOLING if isinstance(region.sliding, Pooling) else CONVOLUTION
