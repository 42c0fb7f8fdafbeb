"""Choose the tile of a product, and into how many shares its sum is cut, by the time that a model says it takes.

Tiles run in waves, as many at a time as the device has multiprocessors; the shares of a sum are added up by another
kernel. The numbers are an H200's (docs/measuring.md). Both choices are defaults of tunable parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from cutegen_core.propose.playbook.products.split import SHARES
from cutegen_core.propose.playbook.regions import Region

LARGE, SMALL = 128, 64
"""Rows and columns of a tile."""
_SMALL_SHARE, _FEW_SHARE = 0.264, 0.45
"""Time of a small tile beside that of a large one, four on a multiprocessor; the least time, where there are fewer."""
_LEAST_DEPTH, _BLOCKS = 256, 2
_US_PER_TERM, _SUM_US, _BYTES_PER_US = 0.0593, 3.0, 4.2e6
"""Time of a large tile of 3xTF32, for each term of its sums; of a kernel that adds up shares, and what it moves."""
_WARP_GROUPS = {(2, 256): 1.0, (2, 192): 0.75, (2, 128): 0.52, (1, 128): 0.31}
"""Warp groups and columns of a tile -> its time, in that of the first (bf16 of 2048 x 4096 x 4096)."""


class Fit(NamedTuple):
    """Rows and columns of a tile of 3xTF32, and shares of its sum."""

    side: int
    shares: int


def wanted_shares(region: Region, sm_count: int) -> int:
    """Return into how many shares the sum of the traced workload is best cut: 1 where its tiles fill the device."""
    tiles = _count([m.extent.size for m in region.outer], LARGE, LARGE)
    most = min(_BLOCKS * sm_count // max(1, tiles), region.reduced[0].extent.size // _LEAST_DEPTH)
    return max((n for n in SHARES if n <= most), default=1)


def fit_in_three(region: Region, sm_count: int) -> Fit:
    """Return tile and shares with which the traced workload takes the least time by 3xTF32."""
    *_, rows, columns = sizes = [m.extent.size for m in region.outer]
    if min(rows, columns) <= SMALL:  # its tile just holds the short side
        return Fit(LARGE, wanted_shares(region, sm_count))
    depth = region.reduced[0].extent.size

    def us_of(fit: Fit) -> float:
        each = -(-_count(sizes, fit.side, fit.side) * fit.shares // sm_count)
        waves = each if fit.side == LARGE else max(each * _SMALL_SHARE, _FEW_SHARE)
        added = _SUM_US + (fit.shares + 1) * prod(sizes) * 4 / _BYTES_PER_US if fit.shares > 1 else 0.0
        return waves * _US_PER_TERM * depth / fit.shares + added

    shares = [1, *(n for n in SHARES if n <= depth // _LEAST_DEPTH)]
    return min((Fit(side, n) for n in shares for side in (LARGE, SMALL)), key=us_of)


def fit_warp_groups(region: Region, sm_count: int) -> tuple[int, int]:
    """Return warp groups and columns of the tile with which the traced workload takes the least time."""
    sizes = [m.extent.size for m in region.outer]

    def time_of(tile: tuple[int, int]) -> float:
        groups, width = tile
        return -(-_count(sizes, 64 * groups, width) // sm_count) * _WARP_GROUPS[tile]

    return min(_WARP_GROUPS, key=time_of)


def leaves_most_idle(region: Region, sm_count: int) -> bool:
    """Return whether the smallest tiles of warp groups take no more than half of the multiprocessors."""
    groups, width = min(_WARP_GROUPS)
    return 2 * _count([m.extent.size for m in region.outer], 64 * groups, width) <= sm_count


def _count(sizes: Sequence[int], height: int, width: int) -> int:
    *batch, rows, columns = sizes
    return prod(batch) * -(-rows // height) * -(-columns // width)
