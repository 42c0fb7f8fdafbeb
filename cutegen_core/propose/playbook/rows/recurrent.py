"""Write recurrent layers: one block a sequence, or a cluster of blocks that keep the weights."""

from __future__ import annotations

from functools import partial

from cutegen_core.propose.playbook.kernels import RecurrentKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.target import Target
from cutegen_core.propose.playbook.writing import LaunchText, Level, RegionText, render

_EMULATED, _EMULATED_THREADS, _EMULATED_PARTS = 2, 64, 2
"""Blocks of a cluster on the emulator, threads of a block and of a row: each waits at every barrier and shuffle."""
_BLOCKS = 8
"""Of a cluster: the most that every device with clusters has."""
_CLUSTERS = 16
"""Of that size run at once on a device of 132 multiprocessors."""
_THREADS, _HELD = 512, 16
"""Of a block, and the most vectors of four weights that a thread keeps, unless the tuner finds others better."""
_BYTES = {"float": 4, "double": 8}


def recurrent_naive(region: Region, name: str, naming: Naming, suffix: str, tuned: bool = False) -> RegionText:
    """Give every sequence a block."""
    piece, k = RegionText(suffix), RecurrentKernel(region, name, naming)
    block = piece.param("BLOCK", 256, *((64, 128, 256, 512, 1024) if tuned else ()))
    piece.code = render("recurrent_naive.cu.j2", k=k)
    size = f"{(2 + (k.kind == 'lstm')) * _BYTES[k.ctype]} * {k.H}"
    piece.launch(f"{name}<{block}>", (k.B,), (block,), k, smem=size)
    return piece


def recurrent_clusters(region: Region, name: str, naming: Naming, suffix: str, target: Target) -> RegionText:
    """Give some sequences a cluster, of which each block keeps the weights of its units."""
    piece, k = RegionText(suffix), RecurrentKernel(region, name, naming)
    piece.includes.append("cooperative_groups.h")
    width, sequences = region.reduced[1].extent.size, region.outer[1].extent.size
    rows = k.gates * -(-width // _BLOCKS)
    parts = max(1, min(32, 1 << (max(1, _THREADS // rows).bit_length() - 1)))
    held = min(_HELD, 1 << max(0, -(-width // (4 * parts)) - 1).bit_length())
    tile = min(8, 1 << max(0, -(-sequences // _CLUSTERS) - 1).bit_length())
    p = {
        "CLUSTER": piece.param("CLUSTER", _BLOCKS, *target.cluster_sizes, emulator=_EMULATED),
        "THREADS": piece.param("THREADS", _THREADS, 64, 256, 512, 1024, emulator=_EMULATED_THREADS),
        "PARTS": piece.param("PARTS", parts, 1, 2, 4, 8, 16, 32, emulator=_EMULATED_PARTS),
        "HELD": piece.param("HELD", held, 1, 2, 4, 8, 16),
        "TILE": piece.param("TILE", tile, 1, 2, 4, 8),
    }
    piece.where.append(f"{p['THREADS']} * {p['HELD']} <= 512 * 16")
    piece.code = render("recurrent_clusters.cu.j2", k=k)
    share, vectors = f"ceil_div({k.H}, {p['CLUSTER']})", f"max(ceil_div({k.H}, 4 * {p['PARTS']}), {p['HELD']})"
    size = (
        f"{_BYTES[k.ctype]} * {p['TILE']} * (8 * {p['PARTS']} * {vectors} + {k.gates + (k.kind == 'lstm')} * {share})"
    )
    grid = (f"ceil_div({k.B}, {p['TILE']}) * {p['CLUSTER']}",)
    kernel = f"{name}<{', '.join(p.values())}>"
    piece.launches.append(LaunchText(kernel, grid, (p["THREADS"],), k.arguments, smem=size, cluster=(p["CLUSTER"],)))
    return piece


_NAIVE = Level("naive", "one block a sequence, its state in shared memory, weights read at each step", recurrent_naive)
_TUNED = Level("tuned", "one block a sequence, block size tunable", partial(recurrent_naive, tuned=True))


def menu(target: Target) -> tuple[Level, ...]:
    """Return the kernels of a recurrent layer."""
    if not target.cluster_sizes:
        return (_NAIVE, _TUNED)
    idea = "a cluster of blocks a few sequences: weights kept in registers, states told by distributed shared memory"
    return (_NAIVE, Level("clusters", idea, partial(recurrent_clusters, target=target)))
