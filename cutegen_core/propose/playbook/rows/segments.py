"""Write kernels that reduce segments: the elements that belong to one place, wherever they lie."""

from __future__ import annotations

from math import prod

from cutegen_core.propose.playbook.kernels import SegmentsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.writing import RegionText, render

_ACROSS, _SHARES = (8, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32)
_EACH = 64
"""Elements of a segment that are worth another thread, which searches for where they begin and end, too."""
_THREADS, _USUAL = 1024, 128
"""Of a block: the most, and how many it has unless the tuner finds others better."""


def segments_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give every result a thread."""
    piece, k = RegionText(suffix), SegmentsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("segments_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows}, {block})",), (block,), k)
    return piece


def segments_shared(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give every result as many threads as its elements are expected to keep busy."""
    piece, k = RegionText(suffix), SegmentsKernel(region, name, naming)
    expected = region.reduced[0].extent.size // max(1, _places(region))
    shares = min(_SHARES[-1], 1 << max(0, expected // _EACH).bit_length())
    p = {"BX": piece.param("BX", max(32, _USUAL // shares), *_ACROSS), "BY": piece.param("BY", shares, *_SHARES)}
    piece.where.append(f"{p['BX']} * {p['BY']} <= {_THREADS}")
    piece.code = render("segments_shared.cu.j2", k=k, p=p)
    piece.launch(f"{name}<{p['BX']}, {p['BY']}>", (f"ceil_div({k.rows}, {p['BX']})",), (p["BX"], p["BY"]), k)
    return piece


def _places(region: Region) -> int:
    """Return how many segments share the elements of a row, in the traced workload."""
    place = region.terms.terms[region.place].access
    assert place is not None
    return prod(region.terms.extents[symbol].size for symbol in place.strides)
