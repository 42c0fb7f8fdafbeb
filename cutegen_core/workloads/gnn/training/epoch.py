"""Train on the batches of one epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch.optim import Optimizer

from cutegen_core.records.errors import StoppedError, UsageError
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.training.devices import Inputs
from cutegen_core.workloads.gnn.training.run import Run
from cutegen_core.workloads.gnn.training.schedule import seed_step, share_of_rank


class EpochOfTraining:
    """The steps of one epoch, and what they add up to.

    Attributes:
        done: batches whose loss was read.
        loss_sum: of these, over their nodes.
    """

    def __init__(
        self, run: Run, model: SampledModel, optimizer: Optimizer, batches: Sequence[Ids], trial: int, epoch: int
    ) -> None:
        self._run, self._model, self._optimizer = run, model, optimizer
        self._batches, self._trial, self._epoch = batches, trial, epoch
        self.parts = share_of_rank(batches, run.ranks.rank, run.ranks.world)
        self.done = 0
        self.loss_sum = 0.0
        self._unread = torch.zeros(2, device=run.device.where, dtype=torch.float64)

    @property
    def loss(self) -> float:
        """Return the mean over the nodes of the batches done; NaN before the first."""
        nodes = sum(map(len, self._batches[: self.done]))
        return self.loss_sum / nodes if nodes else math.nan

    def step(self, inputs: Inputs) -> None:
        """Forward, backward and update with one batch; the loss is the mean over the batch of all ranks."""
        run, whole = self._run, self._batches[inputs.number]
        seed_step(run.settings, self._trial, self._epoch, inputs.number, run.ranks.rank)
        weight = 1 / len(whole) if len(whole) > run.ranks.rank else 0.0
        loss = weight * F.cross_entropy(run.forward(self._model, inputs), inputs.labels, reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
        asked = torch.full_like(loss, float(run.stop.asked))
        summed = run.ranks.add_gradients(self._model.parameters(), torch.stack([loss.detach(), asked]))
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._unread[0] += summed[0] * len(whole)
        self._unread[1] += summed[1]

    def after(self, number: int) -> None:
        """Read the loss back, where the device does not stall for it; end if asked.

        Raises:
            UsageError: the loss is not finite.
            StoppedError: the run, on any rank, was asked to end.
        """
        last = number + 1 == len(self._batches)
        alone_asked = self._run.ranks.world == 1 and self._run.stop.asked
        if not (last or alone_asked or (number + 1) % self._run.device.reads_every == 0):
            return
        loss_sum, asked = self._unread.tolist()
        self._unread.zero_()
        self.done, self.loss_sum = number + 1, self.loss_sum + loss_sum
        if not math.isfinite(self.loss_sum):
            raise UsageError(
                f"the loss became {self.loss_sum} by batch {number + 1} of epoch {self._epoch} of trial {self._trial}. "
                f"Lower learning_rate, now {self._run.settings.learning_rate:g}, and look for NaN or infinite features."
            )
        if asked or alone_asked:
            raise StoppedError("stopped")
