"""Write attention of halves by wgmma: TMA brings queries, keys and values, and takes the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen_core.propose.playbook.kernels import MappedAttention, attention_steps
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.products.tensor_cores import VECTOR, map_strides
from cutegen_core.propose.playbook.regions import Mode, Region
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.propose.playbook.writing import LaunchText, RegionText, TensorMapText, render

_SLICE, _WIDEST = 64, 128
"""Columns of a box: 128 bytes of halves, the longest swizzle; and those of a head whose results registers hold."""
_MOST_BATCHES = 3
"""Modes that a tensor map has besides rows and columns."""


def can_be_mapped(region: Region) -> bool:
    """Return whether tensor maps reach all heads of the traced workload, and a group's registers hold the results."""
    *batch, _, columns = region.outer
    widest = max(columns.extent.size, region.reduced[1].extent.size)
    whole = all(step.size % VECTOR == 0 for step in attention_steps(region))
    return whole and widest <= _WIDEST and len(batch) <= _MOST_BATCHES


def write(region: Region, name: str, naming: Naming, suffix: str) -> tuple[RegionText, str]:
    """Return the kernel, and the condition of the plan under which it is launched."""
    piece, k = RegionText(suffix), MappedAttention(region, name, naming)
    depth, columns = (-(-m.extent.size // _SLICE) * _SLICE for m in (region.reduced[1], region.outer[-1]))
    narrow = max(depth, columns) == _SLICE
    p = {"GROUPS": piece.param("GROUPS", 3 if narrow else 2, *((2, 3) if narrow else ()))}
    p |= {"BN": piece.param("BN", 128, 64, 128, 192 if narrow else 176)}
    p |= {"STAGES": piece.param("STAGES", 2, 2, 3, 4), "TURNS": piece.param("TURNS", 1, 0, 1)}
    p |= {"DEPTH": piece.param("DEPTH", depth), "COLUMNS": piece.param("COLUMNS", columns)}
    queries = f"64 * {p['GROUPS']} * max({p['DEPTH']}, {p['COLUMNS']})"
    smem = f"2 * ({queries} + {p['STAGES']} * {p['BN']} * ({p['DEPTH']} + {p['COLUMNS']})) + 2048"
    piece.where += [f"{smem} <= smem_max", f"{p['GROUPS']} == 2 or {p['BN']} <= 128"]
    maps = {side: naming.fresh(f"{side}_map") for side in ("q", "k", "v", "out")}
    decoded = _decoded(k, region.outer[:-2])
    batches = _add_maps(piece, region, maps, p, tuple(decoded))
    piece.code = render(
        "attention_wgmma.cu.j2", k=k, p=p, maps=maps, batches=batches, decoded=decoded,
        element=ELEMENT[region.accesses[0].dtype],
    )  # fmt: skip
    piece.includes += ["cutlass/arch/barrier.h", "cutlass/arch/reg_reconfig.h"]
    whole = f"{k.aligned(VECTOR)} and {k.D} <= {p['DEPTH']} and {k.E} <= {p['COLUMNS']}"
    grid, block = (f"ceil_div({k.M}, 64 * {p['GROUPS']}) * {k.L}",), (f"128 * ({p['GROUPS']} + 1)",)
    kernel = f"{name}<{', '.join(p.values())}>"
    piece.launches.append(LaunchText(kernel, grid, block, (*maps.values(), *k.arguments), whole, smem))
    return piece, whole


def _decoded(k: MappedAttention, batch: Sequence[Mode]) -> dict[str, str]:
    """Return the C++ name of each batch mode's coordinate, and how it follows from `l`."""
    found: dict[str, str] = {}
    rest = "l"
    for number, mode in reversed(list(enumerate(batch))):
        extent = k.pass_number("extent", mode.extent.text, "int") if number else ""
        found[f"l{number}"] = f"{rest} % {extent}" if number else rest
        rest = f"{rest} / {extent}"
    return dict(reversed(found.items()))


def _add_maps(
    piece: RegionText, region: Region, maps: Mapping[str, str], p: Mapping[str, str], coordinates: Sequence[str]
) -> dict[str, list[str]]:
    """Add the tensor maps; return which batch coordinates each has, fastest first."""
    *batch, queries, columns = region.outer
    keys, depth = region.reduced
    block = f"64 * {p['GROUPS']}"
    sides = ((depth, queries, block), (depth, keys, p["BN"]), (columns, keys, p["BN"]), (columns, queries, "64"))
    found: dict[str, list[str]] = {}
    for side, access, (across, down, box) in zip(maps, region.accesses, sides, strict=True):
        several = [(m, c) for m, c in zip(batch, coordinates, strict=True) if m.stride(access).text != "0"][::-1]
        found[side] = [c for _, c in several]
        piece.maps.append(_map(maps[side], access, (across, down, *(m for m, _ in several)), box, side != "out"))
    return found


def _map(name: str, access: TensorAccess, modes: Sequence[Mode], rows: str, read: bool) -> TensorMapText:
    boxes = ("64", rows, *("1" for _ in modes[2:]))
    dims, strides = tuple(m.extent.text for m in modes), map_strides(access, modes)
    promotion = "256B" if read else "none"
    return TensorMapText(name, access.tensor, boxes, dims, strides, access.offset.text, "128B", promotion)
