"""Write the levels of convolutions and poolings."""

from __future__ import annotations

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.windows.kernels import ConvolutionKernel, PoolingKernel, WindowsKernel
from cutegen_core.propose.playbook.writing import RegionText, render


def convolution_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    return _naive(RegionText(suffix), ConvolutionKernel(region, name, naming), "convolution_naive.cu.j2")


def pooling_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    return _naive(RegionText(suffix), PoolingKernel(region, name, naming), "pooling_naive.cu.j2")


def _naive(piece: RegionText, k: WindowsKernel, template: str) -> RegionText:
    block = piece.param("BLOCK", 256)
    piece.code = render(template, k=k, p={"BLOCK": block})
    piece.launch(f"{k.name}<{block}>", (f"ceil_div({k.N} * {k.C} * {k.P}, {block})",), (block,), k)
    return piece
