"""Exchange numbers between the ranks of a run: gradients, losses, counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor
from torch.nn import Parameter


@dataclass(frozen=True)
class Ranks:
    """This process among those of its run; alone, nothing is exchanged.

    Attributes:
        rank: counted from 0; the first reports and writes checkpoints.
        local: the rank among those of this machine, and so its GPU.
    """

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Return whether this rank speaks for all."""
        return self.rank == 0

    def add(self, values: Tensor) -> Tensor:
        """Return the sum over all ranks."""
        if self.world > 1:
            torch.distributed.all_reduce(values)
        return values


class GradientBucket:
    """All gradients and a few numbers in one piece of memory, which one exchange sums over the ranks.

    Attributes:
        whole: the memory.
        extra: its last numbers.
    """

    def __init__(self, parameters: Sequence[Parameter], extra: int) -> None:
        self._parameters = tuple(parameters)
        sizes = [parameter.numel() for parameter in self._parameters]
        self.whole = self._parameters[0].new_zeros(sum(sizes) + extra, requires_grad=False)
        *parts, self.extra = self.whole.split_with_sizes([*sizes, extra])
        self._views = [part.view_as(of) for part, of in zip(parts, self._parameters, strict=True)]

    def fill(self, extra: Tensor) -> None:
        """Copy this rank's gradients and numbers in; a parameter that its batch did not use has zeros."""
        found = [torch.zeros_like(each) if each.grad is None else each.grad for each in self._parameters]
        torch.cat([*(gradient.flatten() for gradient in found), extra], out=self.whole)

    def use(self) -> None:
        """Make the sums the parameters' gradients, without a copy."""
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view
