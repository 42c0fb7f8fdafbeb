"""Choose sizes for one more test: unlike those of the other workloads, odd if the problem allows it.

The existing workloads show whether a size may change, and in which steps, without running the reference:

1. A size that is equal in all of them, or below 1 in one, stays: it may be a kernel's width or a padding.
2. A size that divides another one in all of them stays, and the other one stays its multiple: heads and channels.
3. Other sizes grow by the greatest common divisor of their values, so that a multiple of 8 remains one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, lcm, prod
from typing import NamedTuple

from cutegen_core.judge.problem_source import SizeValue

Sizes = Mapping[str, SizeValue]


class _SizePlace(NamedTuple):
    """One whole number: a size, or an element of a size that is a shape."""

    name: str
    element: int


_Numbers = Mapping[_SizePlace, int]


def choose_other_sizes(start: Sizes, own: Sizes, used: Sequence[Sizes]) -> Sizes:
    """Return sizes like `start`, but larger, that no workload has; `start` itself if no size may change.

    Args:
        start: of one workload.
        own: the file's.
        used: of every workload; a size that a workload does not set is the file's own.
    """
    seen = [_numbers({**own, **sizes}) for sizes in (*used, {})]
    now, steps = dict(_numbers({**own, **start})), _steps(start, own, seen)
    taken = [_numbers({**own, **sizes}) for sizes in used]
    while steps:
        now |= {place: _next(now[place], step) for place, step in steps.items()}
        if now not in taken:
            break
    return {name: _filled(name, value, now) for name, value in start.items()}


def count_elements(sizes: Sizes) -> int:
    """Return the product of all whole numbers, which tells small sizes from large ones."""
    return prod(_numbers(sizes).values())


def _steps(start: Sizes, own: Sizes, seen: Sequence[_Numbers]) -> Mapping[_SizePlace, int]:
    """Return the step by which each number of `start` may grow, without those that must stay."""
    now = _numbers({**own, **start})
    whole = set(now).intersection(*seen)  # present in every workload, since one may give a number as 1.0
    steps = {}
    for place in _numbers(start):
        values = [numbers[place] for numbers in seen if place in whole]
        if len(set(values)) < 2 or min(values) < 1 or any(_divides(place, other, seen) for other in whole):
            continue
        parts = [now[other] for other in whole if _divides(other, place, seen)]
        steps[place] = lcm(gcd(*values), *parts)
    return steps


def _divides(one: _SizePlace, other: _SizePlace, seen: Sequence[_Numbers]) -> bool:
    """Return whether one number divides the other in every workload, and not only by being 1 or equal."""
    pairs = [(numbers[one], numbers[other]) for numbers in seen]
    divides = all(a > 0 and b > 0 and b % a == 0 for a, b in pairs)
    return divides and any(a > 1 for a, _ in pairs) and any(a != b for a, b in pairs)


def _next(value: int, step: int) -> int:
    return value + step if (value + step) % 2 or not step % 2 else value + 2 * step


def _numbers(sizes: Sizes) -> _Numbers:
    return {
        _SizePlace(name, element): number
        for name, value in sizes.items()
        for element, number in enumerate(value if isinstance(value, tuple) else (value,))
        if isinstance(number, int)
    }


def _filled(name: str, value: SizeValue, numbers: _Numbers) -> SizeValue:
    if isinstance(value, tuple):
        return tuple(numbers[_SizePlace(name, element)] for element in range(len(value)))
    return numbers.get(_SizePlace(name, 0), value)
