"""Find regions whose kernels are the same but for names, as those of equal layers or of a loop's steps: one serves all.

Code that was written with marked names (`naming`) shows which of its words were chosen for a region: its tensors, its
numbers. Codes that differ in nothing else are one kernel, launched with other arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cutegen_core.propose.playbook.naming import is_chosen
from cutegen_core.propose.playbook.writing import RegionText

_WORD = re.compile(r"[A-Za-z_]\w*")


class Owner(NamedTuple):
    """Whose kernel a region launches.

    Attributes:
        region: the number of the first one that has this code, or its own.
        tuned: the owner's parameters are the region's, too: they have the same values to choose among.
    """

    region: int
    tuned: bool = True


def owners(marked: Sequence[RegionText], names: Sequence[str]) -> list[Owner]:
    """Return whose kernel each region launches.

    Args:
        marked: the regions' texts, with marked names.
        names: what each region's kernels are called, or begin with.
    """
    first: dict[str, int] = {}
    found = []
    for k, (piece, name) in enumerate(zip(marked, names, strict=True)):
        index = first.setdefault(_without_names(piece, name), k)
        found.append(Owner(index, _choices(piece) == _choices(marked[index])))
    return found


def _without_names(marked: RegionText, name: str) -> str:
    """Return the code with numbers for its chosen words, in the order in which they come."""
    known = {p.name: f"parameter {k}" for k, p in enumerate(marked.params)}

    def neutral(match: re.Match[str]) -> str:
        word = match[0]
        if is_chosen(word):
            known.setdefault(word, f"name {len(known)}")
        rest = word.removeprefix(name)
        own = rest != word and not rest[:1].isdigit()  # one of a region's kernels, or a function of it
        return known.get(word, f"kernel {rest}" if own else word)

    return " ".join(_WORD.sub(neutral, marked.code).split())


def _choices(piece: RegionText) -> list[tuple[int, tuple[int, ...], int | None]]:
    return [(p.default, p.values, p.emulator) for p in piece.params]
