"""Exchange numbers between the ranks of a run: gradients, losses, counts."""

from __future__ import annotations

from collections.abc import Iterable
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

    def add_gradients(self, parameters: Iterable[Parameter], extra: Tensor) -> Tensor:
        """Replace each gradient by the sum over all ranks, in one exchange; return the same for `extra` [k]."""
        if self.world == 1:
            return extra
        present = list(parameters)
        for parameter in present:
            if parameter.grad is None:  # not used by this rank's batch; the others wait for it
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in present if parameter.grad is not None]
        bucket = torch.cat([*(gradient.flatten() for gradient in gradients), extra])
        torch.distributed.all_reduce(bucket)
        sizes = [*(gradient.numel() for gradient in gradients), len(extra)]
        *parts, summed = torch.split_with_sizes(bucket, sizes)
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        return summed
