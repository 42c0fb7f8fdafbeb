"""Write reductions over a slow dimension, whose neighbouring results lie next to each other: several a thread."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.writing import RegionText, render
from cutegen_core.records.problem import ITEMSIZE

_WIDEST = 4
"""Results of a thread: what threads exchange fits shared memory for every type."""
_RESULTS = 1 << 16
"""From which blocks of vectors keep a device busy."""
_MOST_SHARES = 16
"""Threads of a reduction."""
_HELD_BYTES = 192
"""Of all inputs that a thread keeps: 48 registers of the 128 that two blocks of 256 threads leave it."""
_AT_A_TIME = 4
"""Vectors that a thread reads of a reduction that is too long to be held."""


def pays_by_vectors(region: Region) -> bool:
    """Return whether a thread should have several results: there are many, and something is read again, or shared by
    them, or elements need much arithmetic."""
    copied = [a for a in region.accesses if region.varies(a) and not a.counted]
    written = [s.out for s in region.stores if region.varies(s.out)]
    across = {id(a): region.outer[-1].stride(a).text if region.outer else "" for a in copied}
    aside = all(across[id(a)] == "1" or (across[id(a)] == "0" and a not in written) for a in copied)
    counted = any(region.varies(a) and a.counted for a in region.accesses)
    again = any(term.varies and term.level for term in region.terms.terms.values())
    along, shared = "1" in across.values(), "0" in across.values()
    many = region.rows >= _RESULTS
    return along and aside and many and bool(written or counted or again or shared)


def is_shared(region: Region, access: TensorAccess) -> bool:
    """Return whether neighbouring results read the same elements, as they do of a weight for each channel."""
    return bool(region.outer) and region.outer[-1].stride(access).text == "0"


def is_of_columns(region: Region) -> bool:
    """Return whether nothing that each result reads for itself lies in order along what is reduced."""
    walked = [a for a in region.accesses if region.varies(a) and not a.counted]
    own = [a for a in walked if not is_shared(region, a)] or walked
    return not any(region.reduced[-1].stride(a).text == "1" for a in own)


def columns_by_vectors(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Write one launch for results that are whole, aligned vectors and all others, of which a thread has as many."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    cols, width = region.length, min(k.width, _WIDEST)
    accesses = dict(zip((t.name for t in k.tensors), region.accesses, strict=True))
    repeated = [t for t in k.inputs if t.copied and is_shared(region, accesses[t.name])]
    fixed = [t for t in repeated if all(mode.stride(accesses[t.name]).text == "0" for mode in region.outer)]
    held = [t for t in k.inputs if t.copied and t not in repeated]
    shares, most = _divide(cols, _HELD_BYTES // (width * sum(max(4, ITEMSIZE[accesses[t.name].dtype]) for t in held)))
    vectors = region.outer[-1].extent.size % width == 0
    wide = _results_across(shares, whole=vectors)
    across = piece.param("BX", wide, *sorted({32, 64, wide}))
    share = piece.param("BY", shares, *sorted({4, 8, _MOST_SHARES, shares}))
    items = piece.param("ITEMS", most, *sorted({2, 4, 8, most}))
    wanted = _threads_at_once(wide * shares, most, places=repeated != fixed)
    resident = piece.param("RESIDENT", wanted, *sorted({512, 768, 1024, wanted}))
    piece.where.append(f"{across} * {share} <= 512")
    whole = k.pass_number(
        "whole", _whole(k, [accesses[t.name] for t in k.tensors if t.copied and t not in repeated], width), "bool"
    )
    per_result = bool(k.statements.before) or any(t.counted and t.varies for t in k.inputs)
    per_result |= any(term.tensor is not None for one in k.statements.passes for term in one.after)
    piece.code = render(
        "columns_tiles.cu.j2",
        k=k,
        whole=whole,
        width=width,
        repeated=repeated,
        fixed=fixed,
        per_result=per_result,
        at_a_time=_AT_A_TIME,
    )
    grid = f"ceil_div({k.rows}, {across} * {width})"
    piece.launch(f"{name}<{across}, {share}, {items}, {resident}>", (grid,), (across, share), k)
    return piece


def _divide(cols: int, most: int) -> tuple[int, int]:
    """Return how many threads share a reduction, and how many vectors each reads at a time, at most `most` of them.

    What the threads exchange takes as many steps as there are threads: as few as can hold the reduction, best of all in
    equal parts, of which nothing is tested.
    """
    enough = [n for n in range(1, _MOST_SHARES + 1) if cols <= n * most]
    if not enough:
        return _MOST_SHARES, _AT_A_TIME
    shares = next((n for n in enough if cols % n == 0), enough[0])
    return shares, -(-cols // shares)


def _threads_at_once(block: int, most: int, *, places: bool) -> int:
    """Return how many threads an SM has room for: the fewer, the more vectors each holds, but those of two blocks.

    Args:
        places: a thread has a place of each result in what several results share.
    """
    if most > 8 or places:
        return max(512, 2 * block)
    return 768 if most > _AT_A_TIME else 1024


def _results_across(shares: int, *, whole: bool) -> int:
    """Return how many threads lie across, so that a block has 128 to 288: 16 only where vectors make up for it."""
    return 16 if shares > 8 and whole else 32 * -(-4 // shares)


def _whole(k: RowsKernel, accesses: list[TensorAccess], width: int) -> str:
    """Return the plan's condition under which neighbouring results are whole, aligned vectors in all tensors."""
    *slower, fastest = k.region.outer
    texts = [fastest.extent.text]
    for access in accesses:
        texts += [access.offset.text, *(mode.stride(access).text for mode in (*slower, *k.region.reduced))]
    return k.multiples(width, texts)
