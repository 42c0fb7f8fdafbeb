"""Functions of PyTorch that a trace records as other operations: as they are written, values would decide what they do.

Each gives the same numbers, in the same order of operations as the original where rounding shows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cutegen_core.judge.reference_process.modes.each_call import EachCall


class InOtherWords(EachCall):
    """Records what a function of `_OTHERWISE` makes of a call; the call itself where that is None."""

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        if func in _OTHERWISE:
            made = _OTHERWISE[func](*args, **kwargs)
            if made is not None:
                return made
        return func(*args, **kwargs)


def _embedding_bag(*args: Any, **kwargs: Any) -> Tensor | None:  # noqa: ANN401
    """Look up the rows of a matrix of indices, then reduce each: as one operation, bags would begin at offsets."""
    given = _BAG.bind(*args, **kwargs)
    given.apply_defaults()
    bag = given.arguments
    if bag["input"].dim() != 2 or any(bag[name] is not None for name in ("max_norm", "padding_idx")):
        return None
    elements: Tensor = functional.embedding(bag["input"], bag["weight"])
    if bag["per_sample_weights"] is not None:
        elements = elements * bag["per_sample_weights"][..., None]
    if bag["mode"] == "max":
        return elements.amax(1)
    return elements.sum(1) if bag["mode"] == "sum" else elements.mean(1)


_BAG = inspect.signature(functional.embedding_bag)


def _gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor | None:
    """Leave out the question whether a variance is negative, which the reference asks itself when it runs."""
    if not isinstance(var, Tensor) or var.dim() not in (x.dim(), x.dim() - 1):
        return None
    if var.shape != x.shape and var.dim() == x.dim() - 1:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss: Tensor = 0.5 * (torch.log(var) + (x - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": loss.mean, "sum": loss.sum}[reduction]() if reduction != "none" else loss


def _cov(x: Tensor, *, correction: int = 1, **weights: Tensor | None) -> Tensor | None:
    """Leave out the warning where there are too few columns."""
    if x.dim() != 2 or x.is_complex() or any(one is not None for one in weights.values()):
        return None
    away = x - x.mean(1, keepdim=True)
    made: Tensor = (away @ away.t()) / (x.shape[1] - correction)
    return made


def _corrcoef(x: Tensor) -> Tensor | None:
    made = _cov(x)
    if made is None:
        return None
    deviation = made.diagonal().sqrt()
    shares: Tensor = made / deviation[:, None] / deviation
    return shares.clamp(-1, 1)


_OTHERWISE: Mapping[Callable[..., object], Callable[..., Tensor | None]] = {
    functional.embedding_bag: _embedding_bag,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    **dict.fromkeys((torch.cov, Tensor.cov), _cov),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), _corrcoef),
}
