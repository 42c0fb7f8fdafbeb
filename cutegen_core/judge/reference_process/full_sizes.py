"""Find sizes near the benchmark's that are small enough to run without a GPU.

1. The benchmark's own sizes, if they fit the budget.
2. Else one size divided by a power of two until the whole fits, all others as in the benchmark; two such sizes if
   possible, so that each of them is the benchmark's in the other run.
3. Every size that is the benchmark's in none of these runs stays in one more, with the others divided; at most four
   runs in all. Where sizes of the file are tied (heads that divide channels), some of the others stay, too, until the
   reference runs.
4. One that cannot stay is divided until it fits, with the others small.
5. If nothing of that runs, all of them divided.

Division by two keeps divisibility and most ratios. Equal numbers that the reference takes only together change
together.
Each answer is followed by smaller ones, of the same kind first and down to sizes of four at last, for kernels that
take longer than usual or have more threads than the emulator affords. This module needs no torch: the caller provides
the probe.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2

from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeSlot, SizeValue
from cutegen_core.judge.reference_process.forwards import Cost, Forward
from cutegen_core.judge.reference_process.reduction import SourceProbe
from cutegen_core.records.errors import ProblemError

BUDGET = Cost(elements=4_200_000, flops=400_000_000)
"""Of one run: it takes the emulator and the reference about half a second each on two cores."""

_MOST_CALLS = 6000
"""Operations of all forwards that are tried, which take a millisecond each: a busy machine finds what others do."""
_FEWEST_TRIES, _FEWEST_CALLS = 24, 10
"""Tries there are in any case, and operations that a try counts as at least."""

SMALLEST = 8
"""Sizes are halved down to it; further only if nothing fits, and for kernels that take long at such sizes."""

_TINIEST = 4
_RUNGS = 4
_MORE_RUNGS = 24
_MOST_LADDERS = 4

Sizes = Mapping[str, SizeValue]


@dataclass(frozen=True)
class SizedRun:
    """Sizes that the reference accepts, and what a run on them costs.

    Attributes:
        changed: names of sizes that differ from the benchmark's.
    """

    sizes: Sizes
    cost: Cost
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class _FullSizePlace:
    """A whole number of the benchmark's sizes, wherever it stands: in the size of a name, or at a place of it."""

    value: int
    where: tuple[tuple[str, int | None], ...]


def find_full_sizes(
    source: str, origin: str, benchmark: Sizes, probe: SourceProbe, varied: Container[str]
) -> tuple[tuple[SizedRun, ...], ...]:
    """Return ladders of runs, each from the largest to the smallest; one ladder if the benchmark fits.

    Args:
        varied: names of the sizes that may change. One that is equal in all workloads may be a kernel's width.
    """
    return _FullSizeSearch(source, origin, benchmark, probe, varied).ladders()


class _FullSizeSearch:
    def __init__(self, source: str, origin: str, benchmark: Sizes, probe: SourceProbe, varied: Container[str]) -> None:
        self._source, self._origin, self._probe = source, origin, probe
        self._slots = problem_source.find_size_slots(problem_source.parse(source, origin))
        self._forwards: dict[str, Forward | None] = {}
        places = tuple(_places(self._slots, benchmark))
        names = dict.fromkeys(name for place in places for name, _ in place.where)
        self._benchmark = {**{name: self._slots[name].value for name in names}, **benchmark}
        self._whole = problem_source.with_sizes(source, self._slots, self._benchmark)
        own = self._find_forward(self._whole)
        self._most_tries = max(_FEWEST_TRIES, _MOST_CALLS // max(_FEWEST_CALLS, len(own.calls) if own else 0))
        self._places = tuple(self._tie([p for p in places if p.where[0][0] in varied]))

    def ladders(self) -> tuple[tuple[SizedRun, ...], ...]:
        whole = self._run(self._benchmark)
        if whole and whole.cost.within(BUDGET):
            numbers = {place: place.value for place in self._places}
            smaller = self._descend(numbers, _TINIEST, _RUNGS + _MORE_RUNGS)
            return ((whole, *(run for run in smaller if run.changed)),)
        alone = [(place, ladder) for place in self._places if (ladder := self._climb((place,), smallest=1))][:2]
        shrunk = {place for place, _ in alone}
        left = [place for place in self._places if not alone or shrunk == {place}]
        found = [ladder for _, ladder in alone] + [self._ladder(place) for place in left]
        kept = [ladder for ladder in found if ladder][:_MOST_LADDERS]
        if kept or not self._places:
            return tuple(kept)
        largest = self._climb(self._places)
        return (largest,) if largest else ()

    def _ladder(self, kept: _FullSizePlace) -> tuple[SizedRun, ...]:
        """Return runs in which one size is the benchmark's, or as large as can be with the others small."""
        others = tuple(place for place in self._places if place is not kept)
        without_one = [tuple(o for o in others if o is not left) for left in others]
        ways = [shrunk for shrunk in (others, *without_one, *((one,) for one in others)) if shrunk]
        for smallest, shrunk in product((SMALLEST, 1), ways):
            if found := self._climb(shrunk, smallest):
                return found
        numbers = {**dict.fromkeys(others, SMALLEST), kept: kept.value}
        return self._descend(numbers, SMALLEST, _RUNGS + _MORE_RUNGS) if others else ()

    def _climb(self, shrunk: Sequence[_FullSizePlace], smallest: int = SMALLEST) -> tuple[SizedRun, ...]:
        """Halve these sizes until a run fits, then go on for the smaller ones, and at last halve all sizes."""
        found = self._descend({place: place.value for place in shrunk}, smallest, _RUNGS)
        if not found:
            return ()
        numbers = {place: _number(found[-1].sizes, place) for place in self._places}
        return (*found, *self._descend(numbers, _TINIEST, _MORE_RUNGS))

    def _descend(self, numbers: dict[_FullSizePlace, int], smallest: int, most: int) -> tuple[SizedRun, ...]:
        """Return runs within the budget, with the largest of the numbers halved again and again."""
        found: list[SizedRun] = []
        halvings, before = 1, dict[str, SizeValue]()
        while len(found) < most and len(self._forwards) < self._most_tries:
            sizes = self._halved(numbers, halvings, smallest)
            run = self._run(sizes)
            if sizes == before or run is None:
                break
            before = dict(sizes)
            if run.cost.within(BUDGET):
                found.append(run)
            halvings += 1 if found else _count_halvings(run.cost)
        return tuple(found)

    def _halved(self, numbers: Mapping[_FullSizePlace, int], halvings: int, smallest: int) -> Sizes:
        """Halve the largest of these numbers first, one at a time."""
        now = dict(numbers)
        for _ in range(halvings if now else 0):
            largest = max(now, key=lambda place: now[place])
            if now[largest] <= smallest:
                break
            now[largest] = -(-now[largest] // 2)
        sizes: dict[str, SizeValue] = dict(self._benchmark)
        for place, number in now.items():
            for name, element in place.where:
                whole = sizes[name]
                if element is None:
                    sizes[name] = number
                else:
                    assert isinstance(whole, tuple)
                    sizes[name] = (*whole[:element], number, *whole[element + 1 :])
        return sizes

    def _tie(self, places: Sequence[_FullSizePlace]) -> Iterator[_FullSizePlace]:
        """Join equal numbers that the reference takes only together, such as the extents of two operands."""
        for value in dict.fromkeys(place.value for place in places):
            equal = [place for place in places if place.value == value]
            together = _FullSizePlace(value, tuple(where for place in equal for where in place.where))
            apart = len(equal) == 1 or any(self._runs_halved(place) for place in equal)
            yield from equal if apart or not self._runs_halved(together) else [together]

    def _runs_halved(self, place: _FullSizePlace) -> bool:
        return self._run(self._halved({place: place.value}, 1, 1)) is not None

    def _run(self, sizes: Sizes) -> SizedRun | None:
        cost = self._find_cost(problem_source.with_sizes(self._source, self._slots, sizes))
        if cost is None:
            return None
        changed = tuple(name for name, value in sizes.items() if value != self._benchmark[name])
        return SizedRun(sizes, cost, changed)

    def _find_cost(self, text: str) -> Cost | None:
        """Return the cost; None where the reference does not run, or cuts off what it keeps at its benchmark."""
        known, own = self._find_forward(text), self._find_forward(self._whole)
        return known.cost if known and (own is None or known.cuts_as(own)) else None

    def _find_forward(self, text: str) -> Forward | None:
        if text not in self._forwards:
            try:
                self._forwards[text] = self._probe.forward(text, self._origin)
            except ProblemError:
                self._forwards[text] = None
        return self._forwards[text]


def _number(sizes: Sizes, place: _FullSizePlace) -> int:
    name, element = place.where[0]
    value = sizes[name]
    number = value[element] if isinstance(value, tuple) and element is not None else value
    assert isinstance(number, int)
    return number


def _count_halvings(cost: Cost) -> int:
    """Return how many halvings are needed at least, where one divides the cost by eight at most (a cube)."""
    beyond = max(cost.elements / BUDGET.elements, cost.flops / BUDGET.flops)
    return max(1, int(log2(beyond) / 3))


def _places(slots: Mapping[str, SizeSlot], benchmark: Sizes) -> Iterator[_FullSizePlace]:
    """Yield every number above `SMALLEST` once, the largest first."""
    one_per_span = {slot.span: slot for slot in slots.values() if not slot.derived or slot.name in benchmark}
    found = []
    for slot in one_per_span.values():
        value = benchmark.get(slot.name, slot.value)
        if isinstance(value, tuple):
            found += [_FullSizePlace(v, ((slot.name, k),)) for k, v in enumerate(value) if v > SMALLEST]
        elif isinstance(value, int) and value > SMALLEST:
            found.append(_FullSizePlace(value, ((slot.name, None),)))
    yield from sorted(found, key=lambda place: -place.value)
