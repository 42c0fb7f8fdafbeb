"""Answer otherwise where PyTorch leaves open what an operation answers.

Of equal elements, `topk`, `sort` and what finds an element of a given rank take any. `cdist` may multiply, which makes
NaN of what is infinite, or subtract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cutegen_core.judge.reference_process.modes.each_operation import EachOperation

_MULTIPLIED, _SUBTRACTED = "_euclidean_dist", "donot_use_mm_for_euclid_dist"
"""The operation by which `cdist` multiplies, and its mode that never does."""
_OPEN = frozenset(
    f"aten.{overload}"
    for overload in (
        "topk.default", "sort.default", "sort.stable", "kthvalue.default", "median.dim", "nanmedian.dim",
        "mode.default", f"{_MULTIPLIED}.default",
    )
)  # fmt: skip


def is_open(func: Callable[..., Any], kwargs: Mapping[str, Any] | None) -> bool:
    """Return whether PyTorch leaves open what an operation answers on some values."""
    return str(func) in _OPEN and not (kwargs or {}).get("stable")


class OtherChoices(EachOperation):  # type: ignore[no-untyped-call]
    """Takes the first of equal elements, or the last one; distances are those of differences.

    Attributes:
        met: the operations that were asked.
    """

    def __init__(self, *, last: bool) -> None:
        super().__init__()
        self.met: set[str] = set()
        self._last = last

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        given = dict(kwargs or {})
        name = func.__name__.partition(".")[0]
        if not is_open(func, given):
            return func(*args, **given)
        self.met.add("cdist" if name == _MULTIPLIED else name)
        if name == _MULTIPLIED:
            return torch.cdist(args[0], args[1], compute_mode=_SUBTRACTED)
        if name == "topk":
            return self._topk(*args, **given)
        if name == "sort":
            return self._sort(*args, **given)
        made = func(*args, **given)
        if isinstance(made, Tensor):
            return made
        given.pop("k", None)
        return self._ranked(made, args[0], *args[2 if name == "kthvalue" and len(args) > 1 else 1 :], **given)

    def _sort(
        self, x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return torch.sort(x)
        order = torch.sort(x.flip(dim) if self._last else x, dim=dim, descending=descending, stable=True)[1]
        order = x.shape[dim] - 1 - order if self._last else order
        return x.gather(dim, order), order

    def _topk(
        self,
        x: Tensor,
        k: int,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return torch.topk(x, k)
        values, order = self._sort(x, dim, largest)
        return values.narrow(dim, 0, k), order.narrow(dim, 0, k)

    def _ranked(self, made: Sequence[Tensor], x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        """Return what `kthvalue`, `median` or `mode` found, with the place of another element that is equal."""
        values, places = made
        if x.dim() == 0:
            return values, places
        sought = values if keepdim else values.unsqueeze(dim)
        equal = (x == sought) | (x.isnan() & sought.isnan() if x.is_floating_point() else False)
        equal = equal.flip(dim) if self._last else equal
        found = equal.int().argmax(dim, keepdim=keepdim)
        return values, x.shape[dim] - 1 - found if self._last else found
