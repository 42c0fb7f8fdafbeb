"""Cut a long sum into shares: a product that writes each share's sums to scratch, and a kernel that adds them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen_core.propose.playbook.kernels import MappedProduct
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region, RegionResult
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render

SHARES = (2, 4, 8, 16, 32, 64)
WriteShares = Callable[[Region, str, Naming, str, str], RegionText]
"""Writes a product of which `SPLITS` blocks share each tile; the last argument is that parameter's name."""


def split(region: Region, name: str, naming: Naming, suffix: str, shares: int, write: WriteShares) -> RegionText:
    """Write both kernels; `shares` is the default of the parameter."""
    parts = naming.fresh("shares")
    assert region.a is not None
    dtype = "float64" if region.a.dtype == "float64" else "float32"
    access = replace(region.stores[0].out, tensor=parts, dtype=dtype)
    plain = replace(region, terms=region.terms.emptied(), stores=(RegionResult("acc", access),))
    k = MappedProduct(region, f"{name}_sum", naming)
    k.pass_count()
    piece = write(plain, name, naming, suffix, f"SPLITS{suffix}")
    piece.param("SPLITS", shares, *SHARES)
    piece.scratch.append(ScratchText(parts, access.dtype, (f"SPLITS{suffix}", k.L, k.M, k.N)))
    piece.add_code(render("product_sum.cu.j2", k=k, split=f"SPLITS{suffix}", parts=naming.tensor(parts)))
    grid = (f"ceil_div({k.L} * {k.M} * {k.N}, 256)",)
    piece.launches.append(LaunchText(f"{k.name}<SPLITS{suffix}>", grid, ("256",), (*k.arguments, parts)))
    return piece
