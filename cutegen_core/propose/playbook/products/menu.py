"""Which kernels a matrix product has: by its types, by what the problem allows, by the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.products import simt, tensor_cores
from cutegen_core.propose.playbook.products.fit import fit_in_three, fit_warp_groups, leaves_most_idle, wanted_shares
from cutegen_core.propose.playbook.products.marked import marked
from cutegen_core.propose.playbook.products.one_size import for_one_size
from cutegen_core.propose.playbook.products.packed import needs_packing, packed
from cutegen_core.propose.playbook.products.split import split
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import Level, RegionText


def _marks_simt(region: Region, name: str, naming: Naming, suffix: str, marks: str) -> RegionText:
    return simt.multistage(region, name, naming, suffix, marks=marks)


def _marks_in_three(region: Region, name: str, naming: Naming, suffix: str, marks: str) -> RegionText:
    return tensor_cores.tf32_in_three(region, name, naming, suffix, marks=marks)


_NAIVE = Level("naive", "one thread, one element of the result", simt.naive)
_TILED = Level("tiled", "64 x 64 tiles staged in shared memory, 4 x 4 results a thread", simt.tiled)
_MULTISTAGE = Level(
    "multistage",
    "cp.async through several stages of shared memory, two sets of registers, 128-bit reads and stores, tiles tunable",
    simt.multistage,
)

_IN_THREE = (
    "each float as two numbers that tensor cores multiply: three products by mma m16n8k8 from cp.async stages, summed"
    " in float32, what is not finite summed again; tiles tunable"
)

_MARKED = "slices left out in which a tile of either operand is all zeros, as a kernel before it has marked"
_WITHOUT_ZEROS = (
    Level("skipping", f"{_MARKED}; cp.async stages", partial(marked, write=_marks_simt)),
    Level("3xTF32 skipping", f"{_MARKED}; three products on tensor cores", partial(marked, write=_marks_in_three)),
)

_TENSOR_CORES = Level(
    "tensor cores",
    "mma m16n8k16 on tiles that cp.async brings through several swizzled stages, ldmatrix, tiles tunable",
    tensor_cores.sm80,
)

_WARP_GROUPS = (
    "TMA brings tiles to wgmma: one warp group copies, others multiply, blocks stay and go on to the next tile"
)


_COPIES = "a kernel before it copies each operand as whole vectors"
_SPLIT = "the long sum cut into shares for several blocks, which a second kernel adds up in one order, shares tunable"
_Writer = Callable[..., RegionText]
SM_COUNT = 108
"""Of the smallest device that products are cut for, where none is known."""


def menu(region: Region, target: Target) -> tuple[Level, ...]:
    """Return the kernels of a product, simplest first."""
    assert region.a is not None
    assert region.b is not None
    types, levels = {region.a.dtype, region.b.dtype}, list[Level]()
    sm_count = target.device.sm_count if target.device else SM_COUNT
    if types in ({"float32"}, {"float64"}):
        levels.append(_MULTISTAGE)
        if region.kept or region.has_zeros:
            levels += _WITHOUT_ZEROS[: 2 if types == {"float32"} else 1]
        else:
            levels += _shared(region, sm_count, simt.multistage)
            levels += [_in_three(region, sm_count)] if types == {"float32"} else []
        levels = _for_sizes(levels, target)
    elif types in ({"float16"}, {"bfloat16"}):
        levels += _of_halves(region, target, sm_count)
    return (_NAIVE, _TILED, *levels)


def _for_sizes(levels: list[Level], target: Target) -> list[Level]:
    """Return the levels with kernels for the sizes that are timed."""
    return list(map(for_one_size, levels)) if target.one_size else levels


def _shared(region: Region, sm_count: int, write: _Writer) -> list[Level]:
    """Return the kernel whose sums are cut into shares, if that fills the device."""
    shares = wanted_shares(region, sm_count)
    return [Level("split", _SPLIT, partial(split, shares=shares, write=write))] if shares > 1 else []


def _in_three(region: Region, sm_count: int) -> Level:
    side, shares = fit_in_three(region, sm_count)
    write = partial(tensor_cores.tf32_in_three, side=side)
    if shares == 1:
        return Level("3xTF32", _IN_THREE, write)
    return Level(
        "3xTF32 split", f"{_SPLIT}; three products on tensor cores", partial(split, shares=shares, write=write)
    )


def _of_halves(region: Region, target: Target, sm_count: int) -> list[Level]:
    """Return the kernels on tensor cores; they multiply copies where the traced operands are no whole vectors."""
    copies = needs_packing(region)
    mapped = target.has_wgmma and tensor_cores.can_be_mapped(region, copies=copies)
    levels = [_TENSOR_CORES]
    if not mapped or leaves_most_idle(region, sm_count):
        levels += _shared(region, sm_count, tensor_cores.sm80)
    levels = _for_sizes(levels, target)
    if mapped:
        others = simt.naive if target.one_size else simt.tiled
        write = partial(tensor_cores.sm90, tile=fit_warp_groups(region, sm_count), others=others)
        levels.insert(1, Level("warp groups", _WARP_GROUPS, write))
    if not copies:
        return levels
    return [replace(one, idea=f"{one.idea}; {_COPIES}", write=partial(packed, write=one.write)) for one in levels]
