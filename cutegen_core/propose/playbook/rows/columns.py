"""Write reductions over a slow dimension, whose neighbouring results lie next to each other: vectors of results."""

from __future__ import annotations

from math import prod

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.writing import RegionText, render

_WIDEST = 4
"""Results of a thread: what threads exchange fits shared memory for every type."""
_RESULTS = 1 << 16
"""From which blocks of vectors keep a device busy."""
_SHARES = (4, 8, 16)
"""Threads of a reduction."""


def pays_by_vectors(region: Region) -> bool:
    """Return whether a thread should have several results: something is read again, or elements need much arithmetic,
    and there are many results."""
    copied = [a for a in region.accesses if region.varies(a) and not a.counted]
    written = [s.out for s in region.stores if region.varies(s.out)]
    across = {id(a): region.outer[-1].stride(a).text if region.outer else "" for a in copied}
    aside = all(across[id(a)] == "1" or (across[id(a)] == "0" and a not in written) for a in copied)
    counted = any(region.varies(a) and a.counted for a in region.accesses)
    along = "1" in across.values()
    many = prod(mode.extent.size for mode in region.outer) >= _RESULTS
    return along and aside and many and bool(written or counted)


def columns_by_vectors(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Write one launch for results that are whole, aligned vectors and all others."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    cols, width = prod(mode.extent.size for mode in region.reduced), min(k.width, _WIDEST)
    shares = next((n for n in _SHARES if n * 4 >= cols), _SHARES[-1])
    across = piece.param("BX", 32, 32, 64)
    share = piece.param("BY", shares, *_SHARES)
    most = 8 if shares * 4 < cols <= shares * 8 else 4
    items, resident = piece.param("ITEMS", most, 2, 4, 8), piece.param("RESIDENT", 4096 // most, 512, 1024)
    piece.where.append(f"{across} * {share} <= 512")
    accesses = dict(zip((t.name for t in k.tensors), region.accesses, strict=True))
    repeated = [t for t in k.inputs if t.copied and region.outer[-1].stride(accesses[t.name]).text == "0"]
    whole = k.pass_number(
        "whole", _whole(k, [accesses[t.name] for t in k.tensors if t.copied and t not in repeated], width), "bool"
    )
    per_result = bool(k.statements.before) or any(t.counted and t.varies for t in k.inputs)
    per_result |= any(term.tensor is not None for one in k.statements.passes for term in one.after)
    piece.code = render("columns_tiles.cu.j2", k=k, whole=whole, width=width, repeated=repeated, per_result=per_result)
    grid = f"ceil_div({k.rows}, {across} * ({width} if {whole} else 1))"
    piece.launch(f"{name}<{across}, {share}, {items}, {resident}>", (grid,), (across, share), k)
    return piece


def _whole(k: RowsKernel, accesses: list[TensorAccess], width: int) -> str:
    """Return the plan's condition under which neighbouring results are whole, aligned vectors in all tensors."""
    *slower, fastest = k.region.outer
    texts = {fastest.extent.text: None}
    for access in accesses:
        steps = [mode.stride(access).text for mode in (*slower, *k.region.reduced)]
        texts |= dict.fromkeys([access.offset.text, *steps])
    return " and ".join(f"{k.naming.let('step', text)} % {width} == 0" for text in texts if text != "0")
