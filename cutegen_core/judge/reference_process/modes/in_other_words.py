"""Functions of PyTorch that a trace records as other operations: as they are written, values would decide what they do,
or nobody has rules for them.

Each gives the same numbers, in the same order of operations as the original where rounding shows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from cutegen_core.judge.reference_process.modes.complex_numbers import call_on_parts
from cutegen_core.judge.reference_process.modes.each_call import EachCall


class InOtherWords(EachCall):
    """Records what a function of `_OTHERWISE`, or `call_on_parts`, makes of a call; the call itself where that is None.

    What a call writes to another tensor (`out=`) is computed, then copied there.
    """

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        out = kwargs.get("out")
        if isinstance(out, Tensor):
            made = self.call(func, args, {name: value for name, value in kwargs.items() if name != "out"})
            if isinstance(made, Tensor) and made.shape == out.shape:
                return out.copy_(made)
        made = call_on_parts(func, args, kwargs)
        if made is not None:
            return made
        if func in _OTHERWISE:
            made = _OTHERWISE[func](*args, **kwargs)
            if made is not None:
                return made
        return func(*args, **kwargs)


class FixedBins(EachCall):
    """Takes a count of given length (`bincount` with `minlength`) of fake tensors to have that length: numbers above it
    would make it longer, and nobody knows them."""

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        if func in _BINS and isinstance(args[0], FakeTensor):
            made = _bincount(*args, **kwargs)
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


def _bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor | None:
    """Add to as many places as it has at least: more would depend on the numbers."""
    if minlength <= 0:
        return None
    ones = torch.ones_like(input, dtype=torch.int64) if weights is None else weights
    ones = ones if weights is None or weights.is_floating_point() else ones.double()
    return torch.zeros(minlength, dtype=ones.dtype, device=input.device).index_add(0, input, ones)


def _fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor | None:
    if x.dim() != 2:
        return None
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    rows = rows[:, None]
    return x.masked_fill_((rows % (x.shape[1] + 1) if wrap else rows) == columns, fill_value)


def _tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor | None:  # noqa: ANN401
    """Compute them, where every row has one more than the last."""
    if row != col or offset > 0:
        return None
    line, place = _places_in_triangle(torch.arange(_triangular(row + offset), device=options.get("device")))
    return torch.stack([line - offset, place]).to(options.get("dtype") or torch.int64)


def _triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor | None:  # noqa: ANN401
    """Compute them from the last one back, where every row has one less than the one before."""
    if row != col or offset < 0:
        return None
    back = torch.arange(_triangular(col - offset), device=options.get("device")).flip(0)
    line, place = _places_in_triangle(back)
    return torch.stack([col - offset - 1 - line, col - 1 - place]).to(options.get("dtype") or torch.int64)


def _triangular(n: int) -> int:
    return max(n, 0) * (n + 1) // 2


def _places_in_triangle(k: Tensor) -> tuple[Tensor, Tensor]:
    """Return the line of the k-th place of a triangle, whose lines have 1, 2, 3, ... places, and its place there."""
    line = (((8 * k + 1).float().sqrt() - 1) / 2).long()  # a float may be off by one
    line = line - (line * (line + 1) // 2 > k).long()
    line = line + ((line + 1) * (line + 2) // 2 <= k).long()
    return line, k - line * (line + 1) // 2


def _for_each(one: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...] | None]:
    """Return what calls a function for each tensor of a list, with the element of each other list beside it."""

    def call(first: object, *others: object, **named: object) -> tuple[Tensor, ...] | None:
        if not isinstance(first, list | tuple):
            return None

        def beside(given: Any, k: int) -> Any:  # noqa: ANN401
            return given[k] if isinstance(given, list | tuple) else given

        return tuple(
            one(tensor, *(beside(o, k) for o in others), **{n: beside(v, k) for n, v in named.items()})
            for k, tensor in enumerate(first)
        )

    return call


def _on_lists() -> Mapping[Callable[..., object], Callable[..., tuple[Tensor, ...] | None]]:
    """Return the operations on lists of tensors (`torch._foreach_add_` and its like), as optimisers use them."""
    names = [name for name in dir(torch) if name.startswith("_foreach_")]
    stems = {name: name.removeprefix("_foreach_") for name in names}
    return {
        getattr(torch, name): _for_each(_DIFFERENT[stem] if stem in _DIFFERENT else getattr(Tensor, stem))
        for name, stem in stems.items()
        if stem in _DIFFERENT or hasattr(Tensor, stem)
    }


_DIFFERENT: Mapping[str, Callable[..., Tensor]] = {
    "norm": torch.linalg.vector_norm,
    "max": torch.amax,
    **{
        name: lambda x, a, b, value=1, name=name: getattr(x, name)(a, b, value=value)
        for name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_")
    },
    **{
        name: lambda x, other, clamp=clamp: getattr(x, clamp)(other)
        for name, clamp in (
            ("maximum", "clamp_min"), ("maximum_", "clamp_min_"), ("minimum", "clamp_max"), ("minimum_", "clamp_max_"),
        )
    },
}  # fmt: skip
"""Whose methods have other names, or take their arguments otherwise."""
_BINS = (torch.bincount, Tensor.bincount)
_DATA_OF: Callable[..., Tensor] = Tensor.data.__get__  # type: ignore[attr-defined]
_OTHERWISE: Mapping[Callable[..., object], Callable[..., Tensor | tuple[Tensor, ...] | None]] = {
    functional.embedding_bag: _embedding_bag,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    **dict.fromkeys((torch.cov, Tensor.cov), _cov),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), _corrcoef),
    **dict.fromkeys(_BINS, _bincount),
    Tensor.fill_diagonal_: _fill_diagonal_,
    _DATA_OF: Tensor.detach,
    torch.tril_indices: _tril_indices,
    torch.triu_indices: _triu_indices,
    **_on_lists(),
}
