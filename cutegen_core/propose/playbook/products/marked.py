"""Leave out what is zero: a kernel marks the tiles of both operands, a product skips slices by the marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen_core.propose.playbook.kernels import ProductKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

WriteMarked = Callable[[Region, str, Naming, str, str], RegionText]
"""Writes a product that skips slices; the last argument is what the buffer of the marks is called."""


def marked(region: Region, name: str, naming: Naming, suffix: str, write: WriteMarked) -> RegionText:
    """Write both kernels: which tiles are zero is seen in the operands, so that the result is right for all of them."""
    marks = naming.fresh("marks")
    piece, k = write(region, name, naming, suffix, marks), ProductKernel(region, f"{name}_marks", naming)
    p = {n: n + suffix for n in ("BM", "BN", "BK")}
    tiles = f"(ceil_div({k.M}, {p['BM']}) + ceil_div({k.N}, {p['BN']}))"
    slices = f"ceil_div({k.K}, {p['BK']})"
    piece.scratch.append(ScratchText(marks, "int32", (k.L, tiles, slices)))
    piece.code = render("product_marks.cu.j2", k=k, p=p, marks=marks) + "\n" + piece.code
    piece.launches = [replace(one, args=(*one.args, marks)) for one in piece.launches]
    kernel = f"{k.name}<{', '.join(p.values())}>"
    piece.launches.insert(0, LaunchText(kernel, (slices, tiles, k.L), ("256",), (*k.arguments, marks)))
    return piece
