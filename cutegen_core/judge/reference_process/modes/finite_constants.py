"""Compute with finite numbers where a reference writes infinity or NaN itself: `masked_fill(mask, -inf)`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from cutegen_core.judge.reference_process.modes.each_operation import EachOperation

_LARGE = 1e30
"""Takes the place of infinity in float64: its square and its exponential's limits are numbers, too."""
_FROM_NUMBERS = "lift_fresh"
"""The operation through which `torch.tensor(...)` makes a tensor of numbers."""


class FiniteConstants(EachOperation):  # type: ignore[no-untyped-call]
    """Puts a large number in place of each infinity that an operation is given as a number, and one in place of NaN."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401
        made = func(*_finite(args), **{name: _finite(given) for name, given in kwargs.items()})
        if func.__name__.startswith(_FROM_NUMBERS) and made.is_floating_point():
            return torch.nan_to_num(made, nan=1.0, posinf=_LARGE, neginf=-_LARGE)
        return made


def _finite(given: Any) -> Any:  # noqa: ANN401 - any argument
    if isinstance(given, list | tuple):
        return type(given)(_finite(one) for one in given)
    if not isinstance(given, float) or math.isfinite(given):
        return given
    return 1.0 if math.isnan(given) else math.copysign(_LARGE, given)
