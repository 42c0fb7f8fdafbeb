"""Sizes for one more test: unlike those of the other workloads, odd where the problem allows it.

Whether a size may be changed, and by how much, is told by the workloads there are, without running the reference:

1. A size that is the same in all of them, or below 1 somewhere, stays: it may be a kernel's width or a padding.
2. A size that divides another one everywhere stays, and the other stays its multiple: heads and channels.
3. The others grow by what all their values are multiples of, so that a multiple of 8 remains one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, lcm, prod
from typing import NamedTuple

from cutegen_core.judge.problem_source import SizeValue

Sizes = Mapping[str, SizeValue]


class _Place(NamedTuple):
    """One whole number: a size, or an element of one that is a shape."""

    name: str
    element: int


_Numbers = Mapping[_Place, int]


def other_sizes(start: Sizes, own: Sizes, used: Sequence[Sizes]) -> Sizes:
    """Sizes like `start`, larger, that no workload has; `start` itself where nothing may be changed.

    Args:
        start: of one workload.
        own: the file's.
        used: of every workload; what one does not set is the file's own.
    """
    seen = [_numbers({**own, **sizes}) for sizes in (*used, {})]
    now, steps = dict(_numbers({**own, **start})), _steps(start, own, seen)
    taken = [_numbers({**own, **sizes}) for sizes in used]
    while steps:
        now |= {place: _next(now[place], step) for place, step in steps.items()}
        if now not in taken:
            break
    return {name: _filled(name, value, now) for name, value in start.items()}


def elements(sizes: Sizes) -> int:
    """The product of all whole numbers, to tell small sizes from large ones."""
    return prod(_numbers(sizes).values())


def _steps(start: Sizes, own: Sizes, seen: Sequence[_Numbers]) -> Mapping[_Place, int]:
    """By how much each number of `start` may grow; those that must stay are left out."""
    now = _numbers({**own, **start})
    whole = set(now).intersection(*seen)  # in every workload: a number may also be given as 1.0
    steps = {}
    for place in _numbers(start):
        values = [numbers[place] for numbers in seen if place in whole]
        if len(set(values)) < 2 or min(values) < 1 or any(_divides(place, other, seen) for other in whole):
            continue
        parts = [now[other] for other in whole if _divides(other, place, seen)]
        steps[place] = lcm(gcd(*values), *parts)
    return steps


def _divides(one: _Place, other: _Place, seen: Sequence[_Numbers]) -> bool:
    """In every workload, and not just because it is 1 or the same number."""
    pairs = [(numbers[one], numbers[other]) for numbers in seen]
    divides = all(a > 0 and b > 0 and b % a == 0 for a, b in pairs)
    return divides and any(a > 1 for a, _ in pairs) and any(a != b for a, b in pairs)


def _next(value: int, step: int) -> int:
    return value + step if (value + step) % 2 or not step % 2 else value + 2 * step


def _numbers(sizes: Sizes) -> _Numbers:
    return {
        _Place(name, element): number
        for name, value in sizes.items()
        for element, number in enumerate(value if isinstance(value, tuple) else (value,))
        if isinstance(number, int)
    }


def _filled(name: str, value: SizeValue, numbers: _Numbers) -> SizeValue:
    if isinstance(value, tuple):
        return tuple(numbers[_Place(name, element)] for element in range(len(value)))
    return numbers.get(_Place(name, 0), value)
