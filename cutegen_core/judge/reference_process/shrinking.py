"""Choose other numbers for the sizes of a file: smaller ones together, one by one, or off what divides them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import gcd
from typing import NamedTuple

from cutegen_core.judge.problem_source import SizeSlot

_KEEP = 8
TILES = (32, 16, 8, 4)
_SINGLE = (31, 61, 127, 17, 7, 3, 1)

SizePlace = tuple[str, int | None]


@dataclass(frozen=True)
class SizeGroup:
    """Numbers that shrink together: (slot, position in a tuple or None) each."""

    value: int
    places: tuple[SizePlace, ...]


Targets = Mapping[SizeGroup, int]
Style = Callable[[Sequence[SizeGroup], int], Targets]


def shrinkable(slots: Mapping[str, SizeSlot]) -> Iterator[tuple[int, SizePlace]]:
    """Yield every number that may shrink, with its place; up to eight they are kernel sizes and the like."""
    return ((number, place) for number, place in _numbers(slots) if number > _KEEP)


def perhaps_batches(slots: Mapping[str, SizeSlot], fewest: int) -> list[SizeGroup]:
    """Return the numbers that do not shrink, of those above the fewest that a batch may have."""
    return [SizeGroup(number, (place,)) for number, place in _numbers(slots) if fewest < number <= _KEEP]


def _numbers(slots: Mapping[str, SizeSlot]) -> Iterator[tuple[int, SizePlace]]:
    one_per_place = {slot.span: slot for slot in slots.values() if not slot.derived}
    for slot in one_per_place.values():
        if isinstance(slot.value, tuple):
            yield from ((v, (slot.name, i)) for i, v in enumerate(slot.value))
        elif isinstance(slot.value, int):
            yield slot.value, (slot.name, None)


def ragged(groups: Sequence[SizeGroup], cap: int) -> Targets:
    """Assign distinct primes from the cap down, the largest prime to the largest number."""
    primes = [p for p in range(cap, 1, -1) if all(p % d for d in range(2, int(p**0.5) + 1))] or [1]
    return {g: min(g.value, primes[min(rank, len(primes) - 1)]) for rank, g in enumerate(groups)}


def halved(groups: Sequence[SizeGroup], cap: int) -> Targets:
    """Halve each number down to the cap, rounded up to a power of two; odd factors and most ratios survive."""
    limit = 1 << (cap - 1).bit_length()
    return {g: _halve(g.value, limit) for g in groups}


def tiled(groups: Sequence[SizeGroup], cap: int, tile: int) -> Targets:
    """Halve each number down to the cap, but not below what divides it, up to the tile."""
    limit = 1 << (cap - 1).bit_length()
    return {g: _halve(g.value, max(limit, gcd(g.value, tile))) // tile * tile or g.value for g in groups}


def tiles_kept(number: int, tile: int) -> int:
    """Return a number's odd factor times the powers of two up to the tile that divide it: for 32, 768 becomes 96."""
    return number // (number & -number) * gcd(number, tile)


def odd_targets(number: int, others: set[int]) -> Iterator[int]:
    """Yield numbers close to this one that four does not divide, then multiples of the numbers that divide it."""
    yield from (n for n in (number - 1, number + 1) if n > 1)
    for step in sorted(others, reverse=True):
        if 1 < step < number and number % step == 0:
            yield from (step * times for times in (number // step - 1, number // step + 1) if times)


def divided_alike(groups: Sequence[SizeGroup], cap: int) -> Targets:
    """Divide all by one power of two, as far as each is divisible; relations between sizes survive."""
    factor = 1 << max(0, groups[0].value // cap).bit_length() if groups else 1
    targets = {}
    for group in groups:
        own = factor
        while group.value % own:
            own //= 2
        targets[group] = group.value // own
    return targets


def _halve(value: int, limit: int) -> int:
    while value > limit and value % 2 == 0:
        value //= 2
    return min(value, limit)


Step = Mapping[SizeGroup, int] | Callable[[Targets], Targets]


def steps(groups: Sequence[SizeGroup]) -> Iterator[Step]:
    """Yield steps that shrink one number each, then pairs by the same factor."""
    for ladder in (_SINGLE[:3], _SINGLE[3:5], _SINGLE[5:]):
        for group in groups:
            for target in ladder:
                yield from ({group: t} for t in (target, _halve(group.value, target + 1)) if t < group.value)
    for factor in (16, 4, 2):
        for pair in combinations(groups, 2):
            yield _divided(pair, factor)


def _divided(pair: Sequence[SizeGroup], factor: int) -> Callable[[Targets], Targets]:
    def step(targets: Targets) -> Targets:
        now = {g: targets.get(g, g.value) for g in pair}
        return {g: v // factor for g, v in now.items()} if all(v % factor == 0 for v in now.values()) else {}

    return step


class FewProducts(NamedTuple):
    """How sizes are chosen where products are made few.

    Attributes:
        styles: of the numbers that do not say how many there are, together.
        ladder: of each of them alone, where no style fits.
        few: what the numbers of products become, one after the other.
    """

    styles: Sequence[Style]
    ladder: Sequence[int]
    few: Sequence[int]


RAGGED = FewProducts((ragged,), (3, 7, 13, 31, 61), (3, 2))
WHOLE_TILES = FewProducts([partial(tiled, tile=tile) for tile in TILES], (4, 8, 16, 32, 64), (4, 4))
