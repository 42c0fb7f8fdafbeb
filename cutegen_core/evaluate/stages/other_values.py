"""Choose the runs of TEST on other values than those of `get_inputs`.

Every kind on which the reference can be judged (`Reference.find_derived`) runs once, on the largest small workload.
Kinds that put something at a place of their inputs, and those on which sums and exponentials go wrong, also run on a
second one, whose tails differ: a kernel may have code of its own for whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from cutegen_core.judge.reference import Reference
from cutegen_core.records.problem import Values, Workload, WorkloadRole

_TWICE = (
    Values.DOMINANT, Values.SORTED, Values.SLICE, Values.NAN, Values.NEGATIVE_MEAN, Values.ALL_NEGATIVE, Values.HUGE,
    Values.INFINITE,
)  # fmt: skip
_LARGEST_BYTES = 1 << 20
_TILE = 32


class ChosenValues(NamedTuple):
    """Other values to run on.

    Attributes:
        base: the small workload whose sizes and launch plan this one has.
        again: whether the kind runs on another workload, too.
    """

    workload: Workload
    base: Workload
    again: bool


def choose_values(reference: Reference) -> Iterator[ChosenValues]:
    """Choose the kinds of values to run on."""
    for rank, base in enumerate(_choose_bases(reference)):
        for values, doubt in reference.find_derived(base).items():
            if not doubt and (rank == 0 or values in _TWICE):
                yield ChosenValues(replace_values(base, values), base, again=rank > 0)


def replace_values(workload: Workload, values: Values) -> Workload:
    """Return the workload with other values, named after them."""
    return replace(workload, name=f"{workload.name}, {values.value} values", values=values)


def _choose_bases(reference: Reference) -> tuple[Workload, ...]:
    """Return the largest small workload, and the largest one whose sizes differ from its by what divides them.

    Where all are large, as with a table of thousands of rows, it is the smallest alone.
    """
    small = [w for w in reference.problem.with_role(WorkloadRole.EMULATOR) if w.values is Values.GIVEN]
    sizes = {w.name: reference.signature(w).nbytes for w in small}
    small = sorted((w for w in small if sizes[w.name]), key=lambda w: -sizes[w.name])
    small = [w for w in small if sizes[w.name] <= _LARGEST_BYTES] or small[-1:]
    others = [w for w in small[1:] if _tails(reference, w) != _tails(reference, small[0])]
    return (*small[:1], *others[:1])


def _tails(reference: Reference, workload: Workload) -> tuple[int, ...]:
    """Return, for each extent of the inputs, the largest power of two that divides it, up to a tile."""
    return tuple(gcd(extent, _TILE) for spec in reference.signature(workload).inputs for extent in spec.shape)
