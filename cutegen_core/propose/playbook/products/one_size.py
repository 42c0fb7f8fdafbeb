"""Leave one of a product's two kernels where the problem is timed at one size: a compiler takes half as long.

A product has a kernel for operands that are whole, aligned vectors, and the same one element by element for all others.
Timed at one size, only one of them is timed. Without the second, other sizes take the naive kernel.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.products import simt
from cutegen_core.propose.playbook.products.packed import needs_packing
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.writing import LaunchText, Level, RegionText


def for_one_size(level: Level) -> Level:
    """Return the level with the kernel for operands as at the traced size, and the naive one for all others."""

    def write(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
        piece = level.write(region, name, naming, suffix)
        if pair := _pair(piece.launches):
            whole, others = pair
            if needs_packing(region):
                piece.launches = [
                    replace(one, when="") if one is others else one for one in piece.launches if one is not whole
                ]
            else:
                _add_naive(piece, whole, others, simt.naive(region, f"{name}_any", naming, f"_ANY{suffix}"))
        return piece

    return replace(level, write=write)


def _pair(launches: list[LaunchText]) -> tuple[LaunchText, LaunchText] | None:
    """Return the launch for whole vectors and that for all others, if there are both."""
    by_condition = {launch.when: launch for launch in launches if launch.when}
    found = [(one, by_condition.get(f"not ({when})")) for when, one in by_condition.items()]
    return next(((one, other) for one, other in found if other), None)


def _add_naive(piece: RegionText, whole: LaunchText, others: LaunchText, naive: RegionText) -> None:
    """Put the naive kernel in the place of the one for all other sizes, and of what comes before and after it."""
    piece.add_code(naive.code)
    piece.params += naive.params
    launches = [one if one is whole else one.only(whole.when) for one in piece.launches if one is not others]
    piece.launches = launches + [replace(launch, when=others.when) for launch in naive.launches]
