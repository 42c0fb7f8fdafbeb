"""Write kernels that sort rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen_core.propose.playbook.kernels import RowsKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.pointwise.operations import GREATEST, LEAST
from cutegen_core.propose.playbook.regions import Region, RegionResult
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, ScratchText, render
from cutegen_core.records.problem import ITEMSIZE

_BLOCKS = (32, 64, 128, 256, 512, 1024)
_MOST_THREADS = 256
"""Of a block, unless the tuner finds others better."""
_EACH, _BANKS = 8, 16
"""Elements that a thread sorts in registers, and after how many in shared memory one is left out."""
_RUN, _EMULATED = 8192, 64
"""Elements that a block sorts at once; on the emulator, so few that small workloads have longer rows."""
_RUNS, _EMULATED_RUNS = 16, 2
"""How many runs are joined first where a row has more of them: an element searches as many, and then as many groups."""


def sort_naive(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give every element a thread, which counts what comes before it."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    block = piece.param("BLOCK", 128)
    piece.code = render("sort_naive.cu.j2", k=k, before=_before(region))
    piece.launch(f"{name}<{block}>", (f"ceil_div({k.rows} * {k.cols}, {block})",), (block,), k)
    return piece


def sort_block(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give every row a block, which sorts it in shared memory; a longer one several, and each element a search for its
    place among what they have sorted: at once, or in a group of runs first, and then among the groups."""
    piece, k = RegionText(suffix), RowsKernel(region, name, naming)
    out = region.stores[0].out
    joined = RowsKernel(replace(region, terms=region.terms.emptied(), stores=(RegionResult("", out),)), name, naming)
    runs, wanted = naming.fresh("runs"), ""
    assert region.sort is not None
    if region.sort.wanted is not None:
        wanted = joined.pass_number("wanted", region.sort.wanted.text, "int")
    parts = min(_RUN, region.reduced[0].extent.size) // _EACH
    threads = min(1 << max(0, parts - 1).bit_length(), _MOST_THREADS)
    block = piece.param("BLOCK", max(_BLOCKS[0], threads), *_BLOCKS)
    run = piece.param("RUN", _RUN, emulator=_EMULATED)
    together = piece.param("RUNS", _RUNS, emulator=_EMULATED_RUNS)
    piece.where.append(f"{_bytes(run)} <= smem_max")
    piece.scratch.append(ScratchText(runs, out.dtype, (k.rows, k.cols)))
    piece.code = render(
        "sort_block.cu.j2", k=k, joined=joined, runs=naming.tensor(runs), before=_before(region), last=_last(region),
        wanted=wanted,
    )  # fmt: skip
    kernel, group = f"{name}<{block}, {run}>", f"{run} * {together}"
    piece.launch(kernel, (k.rows,), (block,), k, f"{k.cols} <= {run}", _bytes(k.cols))
    few, many = f"{run} < {k.cols} and {k.cols} <= {group}", f"{k.cols} > {group}"
    sorting, joining = (f"{k.rows} * ceil_div({k.cols}, {run})",), (f"ceil_div({k.rows} * {k.cols}, {block})",)
    own, read, smem = k.arguments, (*joined.arguments, runs), _bytes(run)
    to_runs, from_result = _swapped(own, out.tensor, runs), _swapped(read, out.tensor, runs)
    # What the last launch reads lies in the runs: those of a row of several groups are made in the result first.
    piece.launches += [
        LaunchText(kernel, sorting, (block,), to_runs, few, smem),
        LaunchText(f"{name}_join<{block}, {run}, 0>", joining, (block,), read, few),
        LaunchText(kernel, sorting, (block,), own, many, smem),
        LaunchText(f"{name}_join<{block}, {run}, {together}>", joining, (block,), from_result, many),
        LaunchText(f"{name}_join<{block}, {group}, 0>", joining, (block,), read, many),
    ]
    return piece


def _swapped(arguments: Sequence[str], one: str, other: str) -> tuple[str, ...]:
    """Return a launch's arguments with each of two tensors in place of the other."""
    swap = {one: other, other: one}
    return tuple(swap.get(name, name) for name in arguments)


def _bytes(elements: str) -> str:
    """Return the shared memory of a run."""
    return f"{ITEMSIZE['int64'] * (_BANKS + 1)} * ceil_div({elements}, {_BANKS})"


def _last(region: Region) -> str:
    """Return a number that comes after all elements."""
    assert region.sort is not None
    return LEAST if region.sort.descending else GREATEST


def _before(region: Region) -> str:
    """Return the comparison of an element with one that comes after it."""
    assert region.sort is not None
    return ">" if region.sort.descending else "<"
