"""Find what the inputs of a file have in common under every seed, so that other values keep it.

A kernel may rely on such a structure: a mask of zeros and ones, a triangle, positions that never change, sorted
segments, offsets, a permutation. It is found under two seeds at one workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cutegen_core.judge.reference_process.drawing import has_zeros, widen
from cutegen_core.judge.reference_process.expected import run
from cutegen_core.judge.reference_process.loading.live import Live, instantiate
from cutegen_core.records.problem import TensorRole

_FEW = 4
_MANY = 16
_CHANCE = 0.01
_MOST_TRIED = 4
_NO_CHANCE = 8
"""n numbers of N possible ones are distinct by chance with a probability of exp(-n^2 / 2N): a fiftieth, twice over."""


@dataclass(frozen=True)
class InputStructure:
    """Structure of one input.

    Attributes:
        kept: it must stay as given.
        repeats: name of an earlier input that it always equals, or "".
        zeros: its zeros stay zeros; its infinities and NaN always stay.
        low, high: range of whole numbers.
        ordered: numbers that never fall, floats along the last dimension.
        bounded: the first and the last of the ordered numbers never change (offsets).
        distinct: no whole number occurs twice.
    """

    kept: bool = False
    repeats: str = ""
    zeros: bool = False
    low: int = 0
    high: int = 0
    ordered: bool = False
    bounded: bool = False
    distinct: bool = False


def find_structure(source: str, origin: str) -> Mapping[str, InputStructure]:
    """Return the structure of every input, by name.

    Raises:
        ProblemError: the file's code raised.
    """
    live = instantiate(source, origin, 0)
    first, second = _widen_all(live), _widen_all(instantiate(source, origin, 1))
    found: dict[str, InputStructure] = {}
    for name, tensor in first.tensors.items():
        other = second.tensors.get(name)
        if first.roles[name] is not TensorRole.INPUT:
            continue
        if other is None or other.shape != tensor.shape:
            found[name] = InputStructure(kept=True)
            continue
        same = [n for n in found if _equal(tensor, first.tensors[n]) and _equal(other, second.tensors[n])]
        structure = _of_floats(tensor, other) if tensor.is_floating_point() else _of_wholes(tensor, other)
        found[name] = InputStructure(repeats=same[0]) if same else structure
    return _extend_ranges(found, live)


def _widen_all(live: Live) -> Live:
    return replace(live, tensors={name: widen(tensor) for name, tensor in live.tensors.items()})


def _of_floats(first: torch.Tensor, second: torch.Tensor) -> InputStructure:
    finite = torch.isfinite(first)
    numbers = first.reshape(-1) if finite.all() else first[finite]
    several = first.numel() > _MANY or numbers.numel() < first.numel()
    few = several and all(_count_distinct(some) <= _FEW for some in (numbers[:_MANY], numbers))  # most end at once
    if few or _is_fixed(first, second) or _is_symmetric(first):
        return InputStructure(kept=True)
    ordered = first.dim() > 0 and first.shape[-1] > _FEW and all(bool((t.diff() >= 0).all()) for t in (first, second))
    return InputStructure(zeros=has_zeros(first), ordered=ordered)


def _of_wholes(first: torch.Tensor, second: torch.Tensor) -> InputStructure:
    if _is_fixed(first, second):
        return InputStructure(kept=True)
    a, b = first.long().reshape(-1), second.long().reshape(-1)
    ordered = a.numel() > 2 and all(bool((t.diff() >= 0).all()) for t in (a, b))
    bounded = ordered and bool(a[0] == b[0]) and bool(a[-1] == b[-1])
    distinct = a.numel() > _FEW and all(_count_distinct(t) == t.numel() for t in (a, b))
    low, high = int(min(a.min(), b.min())), int(max(a.max(), b.max()))
    distinct = distinct and a.numel() ** 2 >= _NO_CHANCE * (high - low + 1)
    return InputStructure(low=low, high=high, ordered=ordered, bounded=bounded, distinct=distinct and not bounded)


def _extend_ranges(found: Mapping[str, InputStructure], live: Live) -> Mapping[str, InputStructure]:
    """Extend the range of indices to the size that they index, where the reference accepts its last element, no more.

    A few drawn indices seldom hold the first and the last one; those that many have left out stay left out.
    """
    extended = dict(found)
    for name, one in found.items():
        if one.low < 0 or one.high <= 1 or one.kept or one.repeats or one.distinct or one.ordered:
            continue
        drawn = 2 * live.tensors[name].numel()
        for last in _ends(live, one):
            low = 0 if (1 - one.low / (last + 1)) ** drawn >= _CHANCE else one.low
            by_chance = ((one.high + 1) / (last + 1)) ** drawn >= _CHANCE
            wider = by_chance and (low, last) != (one.low, one.high)
            if wider and _accepts(live, name, last) and not _accepts(live, name, last + 1):
                if low == one.low or _accepts(live, name, low):
                    extended[name] = InputStructure(low=low, high=last)
                break
    return extended


def _ends(live: Live, structure: InputStructure) -> Sequence[int]:
    """Return the last places of the dimensions that may be indexed, the shortest first."""
    sizes = sorted({extent for tensor in live.tensors.values() for extent in tensor.shape})
    return [size - 1 for size in sizes if size > structure.high][:_MOST_TRIED]


def _accepts(live: Live, name: str, index: int) -> bool:
    """Return whether the reference takes this index everywhere."""
    given = live.tensors[name]
    if index > torch.iinfo(given.dtype).max:
        return False
    try:
        run(live, {n: t.clone() for n, t in {**live.tensors, name: torch.full_like(given, index)}.items()})
    except Exception:  # noqa: BLE001 - whatever the file raises
        return False
    return True


def _count_distinct(tensor: torch.Tensor) -> int:
    return int((tensor.reshape(-1).sort()[0].diff() != 0).sum()) + 1


def _is_fixed(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.numel() == 0 or (first.numel() > 1 and _equal(first, second))


def _is_symmetric(tensor: torch.Tensor) -> bool:
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1
    return square and _equal(tensor, tensor.transpose(-1, -2))


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    a, b = left.reshape(-1), right.reshape(-1)
    pairs = (a[:_MANY], b[:_MANY]), (a, b)  # most that differ do so at once
    return all(bool(torch.isclose(c, d, rtol=0.0, atol=0.0, equal_nan=True).all()) for c, d in pairs)
