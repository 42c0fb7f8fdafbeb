"""Train on the batches of one epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from cutegen_core.records.errors import StoppedError, UsageError
from cutegen_core.records.gnn import EpochReport
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.training.devices import Inputs
from cutegen_core.workloads.gnn.training.run import GnnRun
from cutegen_core.workloads.gnn.training.schedule import seed_step, share_of_rank, step_seeds


@dataclass
class Trainee:
    """What a trial trains, and how far it is; `epoch`, `batch`, `loss_sum` and `reports` as in `Checkpoint`."""

    trial: int
    model: SampledModel
    optimizer: Optimizer
    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    reports: tuple[EpochReport, ...] = ()


class EpochOfTraining:
    """The steps of one epoch, and what they add up to.

    Attributes:
        parts: this rank's batches that are still to do.
        done: batches whose loss was read, with those of a run before.
        loss_sum: of these, over their nodes.
    """

    def __init__(self, run: GnnRun, trainee: Trainee, batches: Sequence[Ids]) -> None:
        self._run, self._trainee, self._batches = run, trainee, batches
        self._first = trainee.batch
        self.parts = share_of_rank(batches[self._first :], run.ranks.rank, run.ranks.world)
        self.done, self.loss_sum = trainee.batch, trainee.loss_sum
        self._unread = torch.zeros(2, device=run.device.where, dtype=torch.float64)
        self._unread_loss = self._unread[0]
        self._weights: dict[float, Tensor] = {}
        self._parameters = tuple(trainee.model.parameters())
        self._seeds = step_seeds(run.settings, trainee.trial, trainee.epoch + 1, run.ranks.rank, len(batches))

    @property
    def loss(self) -> float:
        """Return the mean over the nodes of the batches done; NaN before the first."""
        nodes = sum(map(len, self._batches[: self.done]))
        return self.loss_sum / nodes if nodes else math.nan

    def step(self, inputs: Inputs) -> None:
        """Forward, backward and update with one batch; the loss is the mean over the batch of all ranks."""
        run, trainee = self._run, self._trainee
        number = self._first + inputs.number
        seed_step(run.device.where, self._seeds[number])
        whole = len(self._batches[number])
        loss = F.cross_entropy(run.forward(trainee.model, inputs), inputs.labels, reduction="sum")
        weight = self._weight(1 / whole if whole > run.ranks.rank else 0.0)
        # In this thread: handing each step to a thread of autograd's, and Python's lock with it, takes longer.
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward(weight)  # type: ignore[no-untyped-call]
        self._add_up(loss.detach(), weight, whole)
        trainee.optimizer.step()
        for parameter in self._parameters:
            parameter.grad = None

    def _add_up(self, loss: Tensor, weight: Tensor, nodes: int) -> None:
        """Sum the gradients and the loss over the ranks."""
        if self._run.ranks.world == 1:
            self._unread_loss.add_(loss)
            return
        asked = torch.full_like(loss, float(self._run.stop.asked))
        summed = self._run.ranks.add_gradients(self._parameters, torch.stack([loss * weight, asked]))
        self._unread_loss.add_(summed[0], alpha=nodes)
        self._unread[1] += summed[1]

    def _weight(self, value: float) -> Tensor:
        """Return a number on the device, where each is written once."""
        if value not in self._weights:
            self._weights[value] = torch.full((), value, device=self._run.device.where)
        return self._weights[value]

    def after(self, number: int) -> None:
        """Read the loss back, where the device does not stall for it; end if asked.

        Raises:
            UsageError: the loss is not finite.
            StoppedError: the run, on any rank, was asked to end.
        """
        number += self._first
        last = number + 1 == len(self._batches)
        alone_asked = self._run.ranks.world == 1 and self._run.stop.asked
        if not (last or alone_asked or (number + 1) % self._run.device.reads_every == 0):
            return
        loss_sum, asked = self._unread.tolist()
        self._unread.zero_()
        self.done, self.loss_sum = number + 1, self.loss_sum + loss_sum
        if not math.isfinite(self.loss_sum):
            raise UsageError(
                f"the loss became {self.loss_sum} by batch {number + 1} of epoch {self._trainee.epoch + 1} of trial "
                f"{self._trainee.trial}. Lower learning_rate, now {self._run.settings.learning_rate:g}, and look for "
                "NaN or infinite features."
            )
        if asked or alone_asked:
            raise StoppedError("stopped")
