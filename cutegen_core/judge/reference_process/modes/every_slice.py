"""Record every slice of an index that has a bound, also where it takes a whole dimension."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cutegen_core.judge.reference_process.modes.each_call import EachCall


class EverySlice(EachCall):
    """Records every slice with a bound, before whatever else an index does.

    Python's indexing leaves out what takes a whole dimension, so that `mask[:, :length]` would be one operation less
    where `length` is as long as the mask.
    """

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (*_sliced(args[0], args[1]), *args[2:])
        if func is torch.Tensor.__getitem__ and args[1] is Ellipsis:
            return args[0]
        return func(*args, **kwargs)


def _sliced(tensor: torch.Tensor, index: object) -> tuple[torch.Tensor, object]:
    """Return a tensor without what an index's slices leave out, and the index of the rest: `...` where that is all."""
    entries = index if isinstance(index, tuple) else (index,)
    consumed = sum(map(_consumed, entries))
    dim, rest = 0, list[object]()
    for entry in entries:
        if isinstance(entry, slice) and {int} <= set(map(type, _parts(entry))) <= {int, type(None)}:
            start, stop = entry.start or 0, sys.maxsize if entry.stop is None else entry.stop
            step = () if entry.step in (None, 1) else (entry.step,)  # the trace leaves out what is the default
            tensor = torch.ops.aten.slice.Tensor(tensor, dim, start, stop, *step)
            entry = slice(None)
        dim += tensor.dim() - consumed if entry is Ellipsis else _consumed(entry)
        rest.append(entry)
    whole = all(isinstance(entry, slice) and _parts(entry) == (None, None, None) for entry in rest)
    return tensor, Ellipsis if whole else tuple(rest)


def _parts(one: slice) -> tuple[object, object, object]:
    return one.start, one.stop, one.step


def _consumed(entry: object) -> int:
    """Return how many dimensions an entry of an index stands for."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    return entry.dim() if isinstance(entry, torch.Tensor) and entry.dtype == torch.bool else 1
