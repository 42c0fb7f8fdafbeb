"""Answer otherwise where PyTorch leaves open what an operation answers.

Of equal elements, `topk`, `sort` and what finds an element of a given rank take any. `cdist` may multiply, which makes
NaN of what is infinite, or subtract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def is_open(func: Any, kwargs: Mapping[str, Any]) -> bool:  # noqa: ANN401 - an overload
    """Return whether PyTorch leaves open what an operation answers on some values."""
    return str(func) in _OPEN and not kwargs.get("stable")


class OtherChoices(EachOperation):  # type: ignore[no-untyped-call]
    """Takes the first of equal elements, or the last one; distances are those of differences.

    Attributes:
        met: the operations that were asked.
    """

    def __init__(self, *, last: bool) -> None:
        super().__init__()
        self.met: set[str] = set()
        self._last = last

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        if not is_open(func, kwargs):
            return func(*args, **kwargs)
        name = func.__name__.partition(".")[0]
        self.met.add("cdist" if name == _MULTIPLIED else name)
        if name == _MULTIPLIED:
            return torch.cdist(args[0], args[1], compute_mode=_SUBTRACTED)
        if name == "topk":
            return self._topk(*args, **kwargs)
        if name == "sort":
            return self._sort(*args, **kwargs)
        if name == "kthvalue":
            return self._kthvalue(*args, **kwargs)
        return self._elsewhere(func(*args, **kwargs), *args, **kwargs)

    def _sort(
        self, x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return torch.sort(x)
        order = torch.sort(x.flip(dim) if self._last else x, dim=dim, descending=descending, stable=True)[1]
        order = x.shape[dim] - 1 - order if self._last else order
        return x.gather(dim, order), order

    def _topk(
        self, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if x.dim() == 0:
            return torch.topk(x, k)
        values, order = self._sort(x, dim, largest)
        return values.narrow(dim, 0, k).contiguous(), order.narrow(dim, 0, k).contiguous()

    def _kthvalue(self, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        return self._elsewhere(torch.kthvalue(x, k, dim, keepdim), x, dim, keepdim)

    def _elsewhere(
        self, found: Sequence[Tensor], x: Tensor, dim: int = -1, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return the values that `kthvalue`, `median` or `mode` found, with places of the first or last equal ones."""
        values, places = found
        if x.dim() == 0:
            return values, places
        sought = values if keepdim else values.unsqueeze(dim)
        equal = (x == sought) | (x.isnan() & sought.isnan() if x.is_floating_point() else False)
        equal = equal.flip(dim) if self._last else equal
        places = equal.int().argmax(dim, keepdim=keepdim)
        return values, x.shape[dim] - 1 - places if self._last else places
