"""Write attention: on the SIMT path for every type, on tensor cores for halves, by warps or by warp groups."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cutegen_core.propose.playbook.kernels import AttentionKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.products.tensor_cores import OPERATION, VECTOR
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.rows import mapped_attention
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.propose.playbook.writing import Level, RegionText, render

_DEEPEST = 1024
"""Of queries that a block keeps in shared memory."""
_COLUMNS = 64
"""Of a slice of shared memory: 128 bytes of halves, the longest swizzle."""


def simt(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    """Give a block as many columns of the result as the traced workload has, up to 1024, and fewer queries for more."""
    piece, k = RegionText(suffix), AttentionKernel(region, name, naming)
    slices = next((s for s in (1, 2, 4, 8) if s * 64 >= region.outer[-1].extent.size), 16)
    most = max(1, min(4, 16 // slices))
    queries = piece.param("RM", most, *(sorted({max(1, most // 2), most}) if tuned else ()))
    keys = piece.param("BN", 32, *((16, 32) if tuned else ()))
    columns = piece.param("SLICES", slices)
    piece.code = render("attention.cu.j2", k=k)
    grid = (f"ceil_div({k.M}, 16 * {queries}) * {k.L}", f"ceil_div({k.E}, 64 * {columns})")
    piece.launch(f"{name}<{queries}, {keys}, {columns}>", grid, ("256",), k)
    return piece


def sm80(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give a block all columns of the result that its registers hold: 256 by one warp a row of queries, 512 by two."""
    piece, k = RegionText(suffix), AttentionKernel(region, name, naming)
    k.pass_whole(VECTOR)
    slices = -(-region.outer[-1].extent.size // _COLUMNS)
    warps = 1 if slices <= 4 else 2
    p = {"BM": piece.param("BM", 128 if slices <= 2 else 64, 64, 128), "BN": piece.param("BN", 64, 64, 128)}
    p |= {"STAGES": piece.param("STAGES", 4, 2, 3, 4, 6), "DOWN": piece.param("DOWN", 4, 4, 8)}
    p |= {"ACROSS": piece.param("ACROSS", warps), "SLICES": piece.param("SLICES", min(slices, 8))}
    threads = f"32 * {p['DOWN']} * {p['ACROSS']}"
    piece.where += [
        f"{p['BM']} % (16 * {p['DOWN']}) == 0 and {threads} <= {VECTOR} * {p['BN']}",
        f"{p['BM']} * {p['SLICES']} <= 64 * {p['DOWN']} * {p['ACROSS']}",
        f"{p['BM']} * {p['BN']} <= 64 * {threads}",
    ]
    exchanged = f" + {p['BM']} * ({p['BN']} + 2 * {p['ACROSS']})" if warps > 1 else ""
    slots = f"{p['BN']} * {p['STAGES']}"
    smem = f"2 * ({_COLUMNS} * ({p['BM']} * ceil_div({k.D}, {_COLUMNS}) + {slots}){exchanged})"
    dtype = region.accesses[0].dtype
    piece.code = render("attention_sm80.cu.j2", k=k, element=ELEMENT[dtype], operation=OPERATION[dtype])
    grid = (f"ceil_div({k.M}, {p['BM']}) * {k.L}", f"ceil_div({k.E}, {_COLUMNS} * {p['SLICES']})")
    piece.launch(f"{name}<{', '.join(p.values())}>", grid, (threads,), k, smem=smem)
    return piece


def sm90(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Give warp groups what TMA can bring; where rows are no whole vectors, or too deep, warps multiply."""
    piece, whole = mapped_attention.write(region, name, naming, suffix)
    otherwise = sm80(region, f"{name}_any", naming, f"_ANY{suffix}")
    piece.add_code(otherwise.code)
    piece.params += [replace(p, values=(p.default,)) for p in otherwise.params]
    piece.launches += [replace(launch, when=f"not ({whole})") for launch in otherwise.launches]
    return piece


_NAIVE = Level("naive", "scores in memory, a kernel for each step", simt)
_ONLINE = Level("online", "online softmax over tiles of keys, scores kept in the block", simt)
_TUNED = Level("tuned", "online softmax with tiles of queries and keys tunable", partial(simt, tuned=True))
_TENSOR_CORES = Level(
    "tensor cores",
    "mma m16n8k16 on slices that cp.async brings through a swizzled ring, weights kept in registers, tiles tunable",
    sm80,
)


_WARP_GROUPS = Level(
    "warp groups",
    "TMA brings keys and values to wgmma, weights kept in registers; products run while scores become weights, and the"
    " groups take turns; tiles tunable",
    sm90,
)


def menu(region: Region, target: Target) -> tuple[Level, ...]:
    """Return the kernels of attention, simplest first."""
    if not _is_of_halves(region):
        return _NAIVE, _ONLINE, _TUNED
    mapped = target.has_wgmma and mapped_attention.can_be_mapped(region)
    return (_NAIVE, _ONLINE, _TENSOR_CORES, *([_WARP_GROUPS] if mapped else []))


def _is_of_halves(region: Region) -> bool:
    """Return whether all tensors are of one half type and have their columns side by side."""
    columns, depth = region.outer[-1], region.reduced[1]
    walked = (depth, depth, columns, columns)
    contiguous = all(m.stride(a).text == "1" for a, m in zip(region.accesses, walked, strict=True))
    types = {a.dtype for a in region.accesses}
    return contiguous and len(types) == 1 and types <= set(OPERATION) and depth.extent.size <= _DEEPEST
