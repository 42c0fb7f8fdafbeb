"""Derive small workloads for a file without WORKLOADS: shrink its sizes until the emulator can run it.

1. Whole numbers above 8 in size slots may shrink; smaller ones (kernel sizes, strides, dimensions) stay, but a batch
   of products, which is the first dimension of all results, is made small at the end.
2. All shrink together, below a falling cap: to distinct primes (ragged), or by powers of two, which keeps ratios such
   as hidden / heads, or all by one factor. First every number gets its own target; then equal numbers share one.
3. One workload keeps what divides each number, up to 32, and that four divides a dimension, so that fast paths are
   reached; if the others keep it, too, one more breaks it, number by number, or in the steps of another number that
   divides it (heads and channels). Sizes of inputs that are alike in the file and at all of these, as the sides of an
   image of windows, are different in one more.
4. If no joint step works (a convolution needs its extent, heads must divide), shrink one number at a time, then two by
   the same factor, from the file's own sizes or the smallest that a joint step came to. If that is not enough, so do
   numbers inside of classes, where it makes the file cheaper.
5. Only sizes count at which the file does the same operations and broadcasts the same, where there are such: heads that
   share keys go on doing so. The smallest ones may broadcast less.
6. What cannot shrink so far (a network whose layers have numbers of their own) may be as large as the emulator takes in
   a minute, and a hundred times as large on a machine with a GPU.
7. A step counts only after `SourceProbe` has run the reduced source on fake tensors and, for the chosen ones, for real.
8. A number that is in no extent, such as a window, becomes what part of a size it is in the file; a bound of what is
   drawn stays.
9. Of products of many small matrices few larger ones are made: what tiles do shows within a matrix, and each costs a
   tile however small it is.
10. A file that takes seconds to follow (a loop over a long sequence) is tried at its smallest sizes first, and each
    kind of search has a share of the time.

Names of sizes do not matter. This module needs no torch: the caller provides the probe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Protocol

from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeSlot, SizeValue
from cutegen_core.judge.reference_process.forwards import EVEN, Cost, Forward, LongForwardError, WrongForwardError
from cutegen_core.judge.reference_process.shrinking import (
    RAGGED,
    TILES,
    WHOLE_TILES,
    FewProducts,
    SizeGroup,
    SizePlace,
    Style,
    Targets,
    divided_alike,
    halved,
    odd_targets,
    perhaps_batches,
    ragged,
    shrinkable,
    steps,
    tiled,
    tiles_kept,
)
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Values, Workload, WorkloadRole

Found = Mapping[str, SizeValue] | None


class SourceProbe(Protocol):
    """Runs a reduced source; raises ProblemError if it does not run."""

    def forward(self, source: str, origin: str) -> Forward:
        """Return what a forward does, found on fake tensors, whatever the size."""

    def run(self, source: str, origin: str, values: Values) -> None:
        """Run the source for real on such inputs; its outputs must be finite."""

    def leaves_open(self, source: str, origin: str, values: Values) -> bool:
        """Return whether outputs depend on what PyTorch leaves open, such as which of equal elements `topk` takes."""


EMULATOR = Cost(elements=120_000, flops=4_000_000)
EMULATOR_AT_MOST = Cost(elements=40_000_000, flops=200_000_000)
GPU_AT_MOST = Cost(elements=400_000_000, flops=20_000_000_000)
CORRECTNESS = Cost(elements=4_000_000, flops=270_000_000)

_SECONDS, _SLOW_SECONDS = 25.0, 45.0
"""Processor time for the search, and for that of a file that takes `_SLOW` seconds at its own sizes."""
_SLOW = 2.0
_CAPS = (4099, 2053, 1021, 509, 251, 127, 61, 31, 17, 13, 11, 7, 5, 3)
_MIDDLE = (17, 31, 61, 127, 251)

_SMALL_TILES = TILES[2:]
_ADVERSARIAL = (Values.LARGE_MEAN, Values.SPARSE)


def derive(source: str, origin: str, probe: SourceProbe, *, on_gpu: bool = False) -> tuple[Workload, ...]:
    """Return emulator workloads, a medium-sized one for correctness, and the file's own sizes as benchmark.

    Args:
        on_gpu: the machine has a GPU, which takes what is too large for the emulator.

    Raises:
        ProblemError: the file does not run, or no reduction of it is small enough; the text gives the reason.
    """
    return _Search(source, origin, probe, GPU_AT_MOST if on_gpu else EMULATOR_AT_MOST).workloads()


class _Search:
    def __init__(self, source: str, origin: str, probe: SourceProbe, most: Cost) -> None:
        self._source, self._origin, self._probe, self._most = source, origin, probe, most
        tree = problem_source.parse(source, origin)
        self._all = problem_source.find_size_slots(tree)
        self._of_inputs = problem_source.find_input_slots(tree, self._all)
        self._slots: Mapping[str, SizeSlot] = {name: slot for name, slot in self._all.items() if not slot.inside}
        self._slow = False  # a forward takes long to follow at the file's own sizes
        self._end = self._deadline = time.process_time() + _SECONDS
        self._tried: dict[str, Forward | ProblemError] = {}
        self._pattern: Forward | None = None  # what every reduction has to do
        self._whole = True  # whether it has to broadcast all that the pattern does
        self._evenly = False  # whether four has to divide every dimension that it divides in the pattern
        self._refused: ProblemError | None = None  # why the last one that was run does not run
        self._budget = EMULATOR
        self._cheapest: tuple[Cost, Mapping[str, SizeValue]] | None = None
        self._closest: Targets = {}  # the cheapest joint step of a search that is not small enough

    def workloads(self) -> tuple[Workload, ...]:
        own = self._own()
        if isinstance(own, LongForwardError | WrongForwardError):
            raise own
        if isinstance(own, Cost) and own.within(EMULATOR):
            self._probe.run(self._source, self._origin, Values.GIVEN)
            base: Mapping[str, SizeValue] = {}
            self._pattern = self._forward({})
        else:
            base = self._small(own)
            base = self._of_small_batch(self._as_in_file(base, RAGGED, self._budget), 2)
        found = [Workload("reduced", WorkloadRole.EMULATOR, base)]
        found += self._defined([*self._variants(base), *self._adversarial(base)], found[0])
        middle = self._middle(base)
        if middle and middle not in [w.sizes for w in found]:
            found.append(Workload("medium", WorkloadRole.CORRECTNESS, middle))
        if isinstance(own, Cost):
            found.append(Workload("benchmark", WorkloadRole.BENCHMARK))
        return tuple(found)

    def _middle(self, base: Mapping[str, SizeValue]) -> Found:
        """Return larger sizes; of a file whose numbers do not shrink together, if it makes many products."""
        joint = self._joint(ragged, CORRECTNESS)
        if joint:
            return self._of_small_batch(self._as_in_file(joint, RAGGED, CORRECTNESS), 3)
        if self._pattern is None or self._pattern.batches == 1:
            return None
        groups = self._groups(shared=False)
        counts = self._few_batches(groups, base, (2, 1) * len(groups))
        return self._grown(base, [group for group in groups if group not in counts], _MIDDLE, CORRECTNESS)

    def _defined(self, found: Sequence[Workload], base: Workload) -> Sequence[Workload]:
        """Return those at which nothing is left open, unless it is at the base, too: no kernel can be judged there."""
        return found if self._leaves_open(base) else [one for one in found if not self._leaves_open(one)]

    def _leaves_open(self, one: Workload) -> bool:
        text = self._text(one.sizes)
        known = self._tried.get(text)
        if isinstance(known, Forward) and not known.chooses:
            return False
        return self._probe.leaves_open(text, self._origin, one.values)

    def _own(self) -> Cost | ProblemError:
        """Return the cost at the file's own sizes, or the error: what is too large there may still run small."""
        start = time.process_time()
        try:
            return self._cost({})
        except ProblemError as error:
            return error
        finally:
            if time.process_time() - start > _SLOW:
                self._slow, self._end = True, start + _SLOW_SECONDS

    def _small(self, own: Cost | ProblemError) -> Mapping[str, SizeValue]:
        """Return small sizes at which the file does what it does at its own, or at any if there are none such."""
        pattern = self._forward({})
        patterns = ((pattern, True), (pattern, False), (None, False)) if pattern else ((None, False),)
        ways = [(search, *way) for search in (self._search, self._search_inside) for way in patterns]
        for left, (search, self._pattern, self._whole) in zip(range(len(ways), 0, -1), ways, strict=True):
            now = time.process_time()
            self._deadline = now + (self._end - now) / (left if self._slow else 1)
            found: Found = search(own)
            if found is not None:
                self._deadline = self._end
                return found
        if self._cheapest and self._cheapest[0].within(self._most):
            little_more = _little_more(self._cheapest[0], self._most)
            self._budget, self._pattern, self._deadline = little_more, None, self._end
            if self._runs(self._cheapest[1], Values.GIVEN):
                return self._cheapest[1]
        raise own if isinstance(own, ProblemError) else self._too_large(own)

    def _search_inside(self, own: Cost | ProblemError) -> Mapping[str, SizeValue] | None:
        """Shrink numbers in classes, too, but only those that make the file cheaper: the others are no sizes."""
        if not isinstance(own, Cost) or len(self._all) == len(self._slots):
            return None
        outside, self._slots = self._slots, self._all
        found = self._descent(EMULATOR) or self._needed(self._joint(divided_alike, EMULATOR), outside)
        self._slots = {name: slot for name, slot in self._all.items() if name in outside or name in (found or ())}
        return found and (self._search(own) or found)

    def _needed(
        self, sizes: Mapping[str, SizeValue] | None, outside: Mapping[str, SizeSlot]
    ) -> Mapping[str, SizeValue] | None:
        """Return the sizes without the numbers in classes that may as well stay."""
        needed = dict(sizes or {})
        for name in [name for name in needed if name not in outside]:
            less = {other: size for other, size in needed.items() if other != name}
            needed = less if self._fits_more(less) else needed
        return needed or None

    def _search(self, own: Cost | ProblemError) -> Mapping[str, SizeValue] | None:
        self._closest = {}
        for style in (ragged, halved, divided_alike):
            joint = self._joint(style, EMULATOR)
            if joint is not None:
                return joint
        closest = self._closest
        found = self._descent(EMULATOR) if isinstance(own, Cost) else None
        return found or (self._descent(EMULATOR, closest) if closest else None)

    def _variants(self, base: Mapping[str, SizeValue]) -> list[Workload]:
        """Return variants that keep divisibility, that break it, and with as many ones as the file accepts."""
        found: list[Workload] = []
        even = self._even() or (self._broadcasting_less(self._even) if self._whole else None)
        wanted = self._stay_even(base, even or base) or self._become_even(base, even or base)
        odd = self._odd(base) if wanted else None
        smallest = self._broadcasting_less(partial(self._ones, base))
        for name, sizes in (("even", even), ("odd", odd), ("smallest", smallest)):
            if sizes and sizes != base and sizes not in [w.sizes for w in found]:
                found.append(Workload(name, WorkloadRole.EMULATOR, sizes))
        unlike = self._unlike(base, [w.sizes for w in found])
        return [*found, Workload("unlike", WorkloadRole.EMULATOR, unlike)] if unlike != base else found

    def _unlike(
        self, base: Mapping[str, SizeValue], others: Sequence[Mapping[str, SizeValue]]
    ) -> Mapping[str, SizeValue]:
        """Return the base with multiples of inputs' sizes that are alike in the file and at all others, if it runs so.

        An image whose sides are multiples of a window is square otherwise: a kernel that takes one for the other is
        right there. Sizes of parameters may have to be alike: the channels that go into a depthwise convolution and
        come out of it.
        """
        every = [self._numbers(sizes) for sizes in ({}, base, *others)]
        alike: dict[tuple[int, ...], list[SizePlace]] = {}
        for place in (place for place in every[0] if place[0] in self._of_inputs):
            alike.setdefault(tuple(numbers[place] for numbers in every), []).append(place)
        sizes = base
        for (own, now, *_), places in alike.items():
            for times, place in enumerate(places[1:], 2):
                tried = {**sizes, **self._sizes({SizeGroup(own, (place,)): now * times}, sizes)}
                if now * times < own and self._fits_more(tried):
                    sizes = tried
        return sizes

    def _broadcasting_less(self, search: Callable[[], Found]) -> Found:
        """Search among sizes at which the file need not broadcast all that it does at its own."""
        whole, self._whole = self._whole, False
        try:
            return search()
        finally:
            self._whole = whole

    def _even(self) -> Mapping[str, SizeValue] | None:
        """Shrink all numbers, but keep the largest power of two that divides each, up to the largest tile that fits.

        Four goes on dividing the dimensions that it divides at the file's own sizes, those of a head, too, if all
        numbers keep as much, or one keeps more than the others.
        """
        self._evenly = self._pattern is not None
        found = self._tiled() or self._tiled_unlike() if self._evenly else None
        few = found and self._as_in_file(found, WHOLE_TILES, self._budget)
        self._evenly = False
        even = few or self._tiled() or self._joint(halved, self._budget)
        return even and self._of_small_batch(even, EVEN)

    def _tiled(self) -> Mapping[str, SizeValue] | None:
        found = (self._joint(partial(tiled, tile=tile), self._budget) for tile in TILES)
        return next(filter(None, found), None)

    def _tiled_unlike(self) -> Mapping[str, SizeValue] | None:
        """Keep the largest tile of one number, with what else divides it, and a small one of the others."""
        groups = self._groups(shared=True)
        for tile in _SMALL_TILES:
            least = tiled(groups, tile, tile)
            for group in groups:
                tried = {**least, group: tiles_kept(group.value, TILES[0])}
                targets = {g: t for g, t in tried.items() if t < g.value}
                if self._fits(targets, self._budget):
                    return self._sizes(targets)
        return None

    def _stay_even(self, *small: Mapping[str, SizeValue]) -> bool:
        """Return whether some extent shrinks, and four divides it in all of these workloads as in the file."""
        extents = [self._extents(sizes) for sizes in ({}, *small)]
        if len(set(map(len, extents))) > 1:  # a result has another number of dimensions
            return True
        return any(one[0] > min(one) and not any(e % EVEN for e in one) for one in zip(*extents, strict=True))

    def _become_even(self, *small: Mapping[str, SizeValue]) -> bool:
        """Return whether some number is odd in the file, and even in all of these workloads."""
        every = [self._numbers(sizes) for sizes in small]
        return any(n % 2 and all(one[p] % 2 == 0 for one in every) for p, n in self._numbers({}).items())

    def _extents(self, sizes: Mapping[str, SizeValue]) -> Sequence[int]:
        """Return the extents of all results; the numbers, where the file does something else at its own sizes."""
        tried = self._tried.get(self._text(sizes)) if self._pattern else None
        return tried.extents if isinstance(tried, Forward) else tuple(self._numbers(sizes).values())

    def _odd(self, base: Mapping[str, SizeValue]) -> Mapping[str, SizeValue] | None:
        """Take every number that four divides off its divisibility, and one that is odd in the file back to an odd one,
        as far as the file accepts it: a kernel may take a launch of its own for what no two divide."""
        targets: dict[SizeGroup, int] = {}
        now = self._numbers(base)
        odd = [g for g in self._groups(shared=False) if g.value % 2 and now[g.places[0]] % 2 == 0]
        for group in (*self._even_groups(shared=True), *self._even_groups(shared=False), *odd):
            if any(place in done.places for done in targets for place in group.places):
                continue
            for target in odd_targets(now[group.places[0]], set(now.values())):
                tried = {**targets, group: target}
                if self._fits_more({**base, **self._sizes(tried, base)}):
                    targets = tried
                    break
        return {**base, **self._sizes(targets, base)} if targets else None

    def _even_groups(self, *, shared: bool) -> list[SizeGroup]:
        return [group for group in self._groups(shared=shared) if group.value % EVEN == 0]

    def _numbers(self, sizes: Mapping[str, SizeValue]) -> Mapping[SizePlace, int]:
        """Return every shrinkable number as these sizes have it."""
        found: dict[SizePlace, int] = {}
        for _, (name, position) in shrinkable(self._slots):
            value = sizes.get(name, self._slots[name].value)
            number = value[position] if isinstance(value, tuple) and position is not None else value
            assert isinstance(number, int)
            found[name, position] = number
        return found

    def _fits_more(self, sizes: Mapping[str, SizeValue]) -> bool:
        return self._fits_within(sizes, self._budget)

    def _fits_within(self, sizes: Mapping[str, SizeValue], budget: Cost) -> bool:
        try:
            return self._cost(sizes).within(budget) and self._runs(sizes, Values.GIVEN)
        except ProblemError:
            return False

    def _adversarial(self, base: Mapping[str, SizeValue]) -> list[Workload]:
        return [
            Workload(values.value, WorkloadRole.EMULATOR, base, values)
            for values in _ADVERSARIAL
            if self._runs(base, values)
        ]

    def _joint(self, style: Style, budget: Cost) -> Mapping[str, SizeValue] | None:
        """Shrink all numbers at once, under a falling cap; of those in classes, equal ones are one size."""
        inside = any(slot.inside for slot in self._slots.values())
        for groups in (self._groups(shared=shared) for shared in ((True,) if inside else (False, True))):
            largest = None
            for cap in reversed(_CAPS) if self._slow else _CAPS:
                targets = {g: t for g, t in style(groups, cap).items() if t < g.value}
                if targets and self._fits(targets, budget):
                    largest = targets
                    if not self._slow:
                        break
                elif largest:
                    break
                elif targets and self._cheaper(targets, self._closest):
                    self._closest = targets
            if largest:
                return self._sizes(largest)
        return None

    def _as_in_file(self, sizes: Mapping[str, SizeValue], kind: FewProducts, budget: Cost) -> Mapping[str, SizeValue]:
        """Return sizes with few products, whose bounds are as large beside the others as the file's."""
        return self._with_bounds(self._with_few_batches(sizes, kind, budget), budget)

    def _with_few_batches(
        self, sizes: Mapping[str, SizeValue], kind: FewProducts, budget: Cost
    ) -> Mapping[str, SizeValue]:
        """Shrink the numbers that only say how many products there are, and let the others be as large as fits."""
        for shared in (False, True):
            groups = self._groups(shared=shared)
            targets = self._few_batches(groups, sizes, kind.few)
            others = [group for group in groups if group not in targets]
            for style, cap in product(kind.styles, _CAPS if targets else ()):
                smaller = {g: t for g, t in style(others, cap).items() if t < g.value}
                if (smaller or not others) and self._fits({**smaller, **targets}, budget):
                    return self._sizes({**smaller, **targets})
            fewer = {**sizes, **self._sizes(targets, sizes)}
            if targets and self._fits_within(fewer, budget):
                return self._grown(fewer, others, kind.ladder, budget)
        return sizes

    def _of_small_batch(self, sizes: Mapping[str, SizeValue], few: int) -> Mapping[str, SizeValue]:
        """Return the sizes with a smaller batch where the file's has eight elements at most: each costs tiles."""
        before = self._forward(sizes)
        if before is None or not before.cost.flops:
            return sizes
        for group in perhaps_batches(self._slots, few):
            fewer = {**sizes, **self._sizes({group: few}, sizes)}
            after = self._forward(fewer) if self._runs(fewer, Values.GIVEN) else None
            if after and before.is_of_batch(group.value, after, few):
                return fewer
        return sizes

    def _with_bounds(self, sizes: Mapping[str, SizeValue], budget: Cost) -> Mapping[str, SizeValue]:
        """Let a number that is in no extent be what part of a size it is in the file: the window of an attention would
        be as long as the rows that it cuts. What `get_inputs` alone has, as a bound of what it draws, stays."""
        groups, whole = self._groups(shared=False), self._numbers({})
        bounds = [group for group in groups if self._is_bound(sizes, group)]
        larger = sorted((group for group in groups if group not in bounds), key=lambda group: group.value)
        for bound in bounds:
            size = next((group.places[0] for group in larger if group.value >= bound.value), None)
            if bound.places[0][0].startswith(problem_source.IN_INPUTS):
                target = bound.value
            elif size:
                target = max(2, round(bound.value * self._numbers(sizes)[size] / whole[size]))
            else:
                continue
            tried = {**sizes, **self._sizes({bound: target}, sizes)}
            sizes = tried if self._fits_within(tried, budget) else sizes
        return {name: size for name, size in sizes.items() if size != self._all[name].value}

    def _is_bound(self, sizes: Mapping[str, SizeValue], group: SizeGroup) -> bool:
        """Return whether a number that shrank is in no extent there."""
        now = self._numbers(sizes)[group.places[0]]
        other = {**sizes, **self._sizes({group: now + 1}, sizes)}
        return now < group.value and bool(self._batches(other)) and self._forward(other) == self._forward(sizes)

    def _grown(
        self, sizes: Mapping[str, SizeValue], groups: Sequence[SizeGroup], ladder: Sequence[int], budget: Cost
    ) -> Mapping[str, SizeValue]:
        """Let the numbers take turns in growing, as far as it fits."""
        for target, group in product(ladder, groups):
            tried = {**sizes, **self._sizes({group: target}, sizes)}
            if self._numbers(sizes)[group.places[0]] < target < group.value and self._fits_within(tried, budget):
                sizes = tried
        return sizes

    def _few_batches(
        self, groups: Sequence[SizeGroup], sizes: Mapping[str, SizeValue], few: Sequence[int]
    ) -> dict[SizeGroup, int]:
        """Return smaller targets of the numbers with which the number of products falls in proportion."""
        found: dict[SizeGroup, int] = {}
        for group in groups:
            size = self._numbers(sizes)[group.places[0]]
            before = self._batches({**sizes, **self._sizes(found, sizes)})
            for target in (t for t in few[len(found) :] if t < size):
                after = self._batches({**sizes, **self._sizes({**found, group: target}, sizes)})
                if after and after * size == before * target:
                    found[group] = target
                    break
        return found

    def _batches(self, sizes: Mapping[str, SizeValue]) -> int:
        """Return how many products the file makes there, 0 if it does not run or does something else."""
        try:
            self._cost(sizes)
        except ProblemError:
            return 0
        tried = self._forward(sizes)
        return tried.batches if tried else 0

    def _forward(self, sizes: Mapping[str, SizeValue]) -> Forward | None:
        """Return what is known of the file there."""
        tried = self._tried[self._text(sizes)]
        return tried if isinstance(tried, Forward) else None

    def _descent(self, budget: Cost, start: Targets | None = None) -> Mapping[str, SizeValue] | None:
        """Shrink one number after the other, then pairs by the same factor; keep each step that runs and costs less."""
        groups = self._groups(shared=True)
        targets: dict[SizeGroup, int] = dict(start or {})
        for step in steps(groups):
            tried = {**targets, **(step(targets) if callable(step) else step)}
            if tried == targets or not self._cheaper(tried, targets):
                continue
            targets = dict(tried)
            if self._fits(targets, budget):
                return self._sizes(targets)
        return None

    def _ones(self, base: Mapping[str, SizeValue]) -> Mapping[str, SizeValue] | None:
        targets: dict[SizeGroup, int] = {}
        start = dict(base)
        for group in self._groups(shared=True):
            tried = {**targets, group: 1}
            if self._runs({**start, **self._sizes(tried)}, Values.GIVEN):
                targets = tried
        return {**start, **self._sizes(targets)} if targets else None

    def _cheaper(self, targets: Targets, than: Targets) -> bool:
        try:
            new, old = self._cost(self._sizes(targets)), self._cost(self._sizes(than))
        except ProblemError:
            return False
        return new.total < old.total

    def _fits(self, targets: Targets, budget: Cost) -> bool:
        return self._fits_within(self._sizes(targets), budget)

    def _runs(self, sizes: Mapping[str, SizeValue], values: Values) -> bool:
        try:
            self._cost(sizes)
            self._probe.run(self._text(sizes), self._origin, values)
        except ProblemError as error:
            self._refused = error
            return False
        return True

    def _cost(self, sizes: Mapping[str, SizeValue]) -> Cost:
        text = self._text(sizes)
        if text not in self._tried:
            if time.process_time() > self._deadline:
                raise ProblemError(f"{self._origin}: no small enough sizes found in time.")
            try:
                self._tried[text] = self._probe.forward(text, self._origin)
            except ProblemError as error:
                self._tried[text] = error
        known = self._tried[text]
        if isinstance(known, ProblemError):
            raise known
        if sizes and known.is_empty and not ((own := self._forward({})) and own.is_empty):
            raise ProblemError(f"{self._origin}: computes something without elements there.")
        if self._cheapest is None or known.cost.total < self._cheapest[0].total:
            self._cheapest = known.cost, sizes
        if self._pattern is not None:
            if not known.does_as(self._pattern):
                raise ProblemError(f"{self._origin}: does other operations there, or broadcasts more.")
            if self._whole and not known.repeats_as(self._pattern):
                raise ProblemError(f"{self._origin}: broadcasts less there.")
            if self._evenly and not known.is_even_as(self._pattern):
                raise ProblemError(f"{self._origin}: four does not divide there what it divides at its own sizes.")
        return known.cost

    def _text(self, sizes: Mapping[str, SizeValue]) -> str:
        """Return the file at these sizes; what is the file's own stays as it is written, as `1_000`."""
        changed = {name: size for name, size in sizes.items() if size != self._all[name].value}
        return problem_source.with_sizes(self._source, self._all, changed)

    def _groups(self, *, shared: bool) -> list[SizeGroup]:
        """Return the groups, largest number first; if `shared`, equal numbers in several places form one group."""
        places = list(shrinkable(self._slots))
        if not shared:
            return sorted((SizeGroup(v, (p,)) for v, p in places), key=lambda g: -g.value)
        by_value: dict[int, list[SizePlace]] = {}
        for value, place in places:
            by_value.setdefault(value, []).append(place)
        return [SizeGroup(value, tuple(by_value[value])) for value in sorted(by_value, reverse=True)]

    def _sizes(self, targets: Targets, start: Mapping[str, SizeValue] | None = None) -> dict[str, SizeValue]:
        """Return the sizes with these targets; other elements of a shape stay as in `start`, or as in the file."""
        sizes: dict[str, SizeValue] = {}
        for group, target in targets.items():
            for name, position in group.places:
                if position is None:
                    sizes[name] = target
                    continue
                whole = sizes.get(name, (start or {}).get(name, self._slots[name].value))
                assert isinstance(whole, tuple)
                sizes[name] = (*whole[:position], target, *whole[position + 1 :])
        return sizes

    def _too_large(self, own: Cost) -> ProblemError:
        costs = [tried.cost for tried in self._tried.values() if isinstance(tried, Forward)]
        least = min(costs, key=lambda c: c.total, default=own)
        if self._refused is not None and least.within(self._most):
            return ProblemError(
                f"{self._origin}: cannot be reduced: none of the sizes tried that are small enough "
                f"runs. The last one: {str(self._refused).removeprefix(f'{self._origin}: ')}"
            )
        elsewhere = "; a machine with a GPU takes it" if least.within(GPU_AT_MOST) else ""
        where = "on a GPU" if self._most is GPU_AT_MOST else f"on the emulator{elsewhere}"
        slow = "its forward takes seconds to follow at its own sizes; " if self._slow else ""
        return ProblemError(
            f"{self._origin}: cannot be reduced: {slow}the smallest variant that runs has {least.elements:,} elements "
            f"and {least.flops:,} floating-point operations (at most {self._most.elements:,} and "
            f"{self._most.flops:,} {where}). Sizes that the model computes stay as they are: give the file a "
            f"WORKLOADS, or take its sizes from module-level names."
        )


def _little_more(least: Cost, most: Cost) -> Cost:
    """Return what the others may cost where the smallest variant costs much: every run costs as much again."""
    return Cost(min(2 * least.elements, most.elements), min(2 * least.flops, most.flops))
