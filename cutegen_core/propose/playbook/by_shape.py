"""Write regions whose launch the plan chooses by shape: rows by their length, strips by theirs and by their number."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.rows.long_rows import add_long_rows
from cutegen_core.propose.playbook.rows.vectors import RowVectors
from cutegen_core.propose.playbook.target import ANY, Target
from cutegen_core.propose.playbook.writing import RegionText, render
from cutegen_core.records.problem import ITEMSIZE

_SHORT = 128
_HELD = (16, 32, 64, _SHORT, 256, 512, 1024, 2048, 4096)
"""Vectors of a row that a kernel of tiles is made for: up to `_SHORT` by a warp, or a part of one, a row."""
_EACH = 4
"""Vectors that each of these threads keeps."""

_ODD_ITEMS = 4
"""Elements of a thread where strips are no whole vectors: what it has in flight."""

_STAYS = 4 << 20
"""Bytes that strips share and an L2 cache has again at the next strip, although all else of a strip passes through."""

_KEPT = 64
"""Elements of all inputs that a thread has registers for."""


def rows_tuned(region: Region, name: str, naming: Naming, suffix: str, *, target: Target = ANY) -> RegionText:
    """Keep rows of the traced length in registers; longer ones go to the kernel for rows of any length.

    A region that is alone has a kernel for short rows, too; the small workloads of a chain may reach no second one. For
    the same reason one launch has rows of whole, aligned vectors and all others.
    """
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    held = _lengths(region.reduced[-1].extent.size // k.width, alone=not suffix)
    if not held:
        add_long_rows(piece, k, target=target)
        return piece
    items = _add_items(piece, k, held[-1])
    hints = [piece.param("ONCE", 0, 0, 1, 2), piece.param("RESIDENT", 1024, 512, 1024, 2048)]
    if k.late:
        elements = _default_items(k, held[-1]) * k.width * _inputs(k)
        hints.append(piece.param("LATE", int(elements > _KEPT), 0, 1))
    vectors = RowVectors(k)
    whole, shorter = k.pass_number("whole", vectors.whole, "bool"), ""
    piece.code = render("rows_tiles.cu.j2", k=k, whole=whole, vectors=vectors)
    for most in held:
        group, each, rows = f"{most} / {items}", items, "2" if most <= 256 else "1"
        if most <= _SHORT:
            group, each, rows = (str(n) for n in (most // _EACH, _EACH, _SHORT * _EACH // most))
        threads = (group if rows == "1" else f"{rows} * {group}").replace("/", "//")
        blocks = k.rows if rows == "1" else f"ceil_div({k.rows}, {rows})"
        kernel = f"{name}<{', '.join((group, rows, each, *hints))}>"
        when = " and ".join([*([shorter] if shorter else []), f"{k.cols} <= {most * k.width}"])
        piece.launch(kernel, (blocks,), (threads,), k, when)
        shorter = f"{k.cols} > {most * k.width}"
    k.name = f"{name}_long"
    add_long_rows(piece, k, shorter, target=target)
    return piece


def _add_items(piece: RegionText, k: RowsKernel, most: int) -> str:
    """Add how many vectors a thread keeps: what it needs registers for is elements, and a block has 1024 threads."""
    if most <= _SHORT:
        return str(_EACH)
    least, default = -(-most // 1024), _default_items(k, most)
    return piece.param("ITEMS", default, *sorted({n for n in (2, 4, 8) if n >= least} | {default}))


def _default_items(k: RowsKernel, most: int) -> int:
    """Return how many vectors a thread keeps by default: 16 elements; of halves and of long rows 32, and so where one
    tensor is read, twice reduced and not written, which leaves half the time for as many instructions."""
    if most <= _SHORT or k.width >= 8:
        return _EACH
    only_read = _inputs(k) == 1 and not any(t.copied for t in k.outputs)
    reduced_again = only_read and len(k.statements.passes) > 1 and most > 256
    return 16 // k.width * (2 if most > 2048 or reduced_again else 1)


def _inputs(k: RowsKernel) -> int:
    return sum(t.copied for t in k.inputs)


def _lengths(vectors: int, *, alone: bool) -> tuple[int, ...]:
    """Return the lengths that kernels of tiles hold, for rows of so many vectors; none where none holds them."""
    fits = next(((most,) for most in _HELD if most >= vectors), ())
    return (_SHORT, *fits) if alone and fits > (_SHORT,) else fits


def strips_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = render("strips_naive.cu.j2", k=k, p={"BLOCK": block})
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows} * {k.cols}, {block})",), (block,), k)
    return piece


def strips_vector(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 256)
    piece.code = render("strips_vector.cu.j2", k=k, p={"BLOCK": block})
    grid = f"ceil_div({k.rows} * ({k.cols} // {k.width}), {block})"
    piece.launch(f"{name}<{block}>", (grid,), (block,), k, k.aligned)
    _add_scalar(piece, k, block)
    return piece


def strips_hoisted(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("strips_tiles.cu.j2", k=k, together=_share_much(k))
    _add_tiles(piece, k, block, 8, "4", "0", k.aligned)
    _add_odd(piece, k, block)
    return piece


def strips_tuned(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Choose by the length of a strip where something is the same all along it, else by how much there is to do.

    A region among others takes one kernel for all: the small workloads of a chain reach no second one.
    """
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    hoisted = has_invariants(region)
    streams = sum(t.copied and t.once for t in k.inputs)
    block = piece.param("BLOCK", 128, 64, 128, 256)
    items = piece.param("ITEMS", 1 if streams > 1 and not hoisted else 2, 1, 2, 4)  # two vectors under way hide latency
    once = piece.param("ONCE", 1 if hoisted else 0, 0, 1, 2)
    if hoisted:
        piece.code = render("strips_tiles.cu.j2", k=k, together=_share_much(k))
        short = "" if suffix else f"{k.cols} <= 8 * {items} * {k.width}"
        if short:
            _add_tiles(piece, k, block, 8, items, once, f"{k.aligned} and {short}")
        _add_tiles(piece, k, block, 16, items, once, k.aligned + (f" and not ({short})" if short else ""))
    else:
        few = "" if suffix else f"{k.rows} <= sm_count // 2 and {k.cols} <= 32768"
        if few:
            _add_few(piece, k, f"{k.aligned} and {few}")
        p = {"BLOCK": "THREADS", "ITEMS": "EACH", "ONCE": "STREAM"}
        piece.add_code(render("strips_vector.cu.j2", k=k, p=p))
        grid = f"ceil_div({k.rows} * ({k.cols} // {k.width}), {block} * {items})"
        when = k.aligned + (f" and not ({few})" if few else "")
        piece.launch(f"{name}<{block}, {items}, {once}>", (grid,), (block,), k, when)
        k.name = f"{name}_odd"
        piece.add_code(render("strips_tiles.cu.j2", k=k, together=_share_much(k)))
    _add_odd(piece, k, block)
    return piece


def _add_few(piece: RegionText, k: RowsKernel, when: str) -> None:
    """Add the kernel for so few elements that its latency is all that counts."""
    threads, narrow = piece.param("SMALL", 128, 64, 128, 256), max(1, k.width // 2)
    width = piece.param("WIDTH", narrow, *sorted({max(1, k.width // 4), narrow, k.width}))
    whole, k.name = k.name, f"{k.name}_few"
    piece.code = render("strips_few.cu.j2", k=k)
    grid = f"ceil_div({k.cols} // {width}, {threads})"
    piece.launch(f"{k.name}<{threads}, {width}>", (grid, k.rows), (threads,), k, when)
    k.name = whole


def _add_tiles(piece: RegionText, k: RowsKernel, block: str, group: int, items: str, once: str, when: str) -> None:
    """Add a launch for strips of whole, aligned vectors."""
    grid = f"ceil_div({k.rows}, {block} // {group}) * ceil_div({k.cols} // {k.width}, {group} * {items})"
    kernel = f"{k.name}<{group}, {block} / {group}, {items}, {k.width}, {once}>"
    piece.launch(kernel, (grid,), (block,), k, when)


def _add_odd(piece: RegionText, k: RowsKernel, block: str) -> None:
    """Add a launch for strips that are no whole, aligned vectors: a warp a strip, so that elements need no division."""
    grid = f"ceil_div({k.rows}, {block} // 32) * ceil_div({k.cols}, 32 * {_ODD_ITEMS})"
    kernel = f"{k.name}<32, {block} / 32, {_ODD_ITEMS}, 1, 0>"
    piece.launch(kernel, (grid,), (block,), k, f"not ({k.aligned})")


def _add_scalar(piece: RegionText, k: RowsKernel, block: str) -> None:
    """Add the kernel for strips that are no whole, aligned vectors."""
    aligned = k.aligned
    k.name = f"{k.name}_scalar"
    piece.add_code(render("strips_naive.cu.j2", k=k, p={"BLOCK": block}))
    grid = f"ceil_div({k.rows} * {k.cols}, {block})"
    piece.launch(f"{k.name}<{block}>", (grid,), (block,), k, f"not ({aligned})")


def _share_much(k: RowsKernel) -> bool:
    """Return whether what strips share is too much for a cache that they pass through."""
    accesses = dict(zip((t.name for t in k.tensors), k.region.accesses, strict=True))
    shared = sum(ITEMSIZE[accesses[t.name].dtype] for t in k.inputs if t.copied and not t.once)
    return shared * k.region.length > _STAYS


def has_invariants(region: Region) -> bool:
    """Return whether something is computed that is the same all along a strip."""
    return any(not t.varies and t.access is None for t in region.terms.terms.values())
