"""Train on the batches of one epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch.optim import Optimizer

from cutegen_core.records.errors import StoppedError, UsageError
from cutegen_core.records.gnn import EpochReport
from cutegen_core.workloads.gnn.aggregate import ChosenAggregate
from cutegen_core.workloads.gnn.graph import Ids
from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.training.flights import Inputs
from cutegen_core.workloads.gnn.training.run import GnnRun
from cutegen_core.workloads.gnn.training.schedule import share_of_rank, step_seeds
from cutegen_core.workloads.gnn.training.step import TrainingStep, make_optimizer


@dataclass
class Trainee:
    """What a trial trains, and how far it is; `epoch`, `batch`, `loss_sum` and `reports` as in `Checkpoint`."""

    trial: int
    model: SampledModel
    optimizer: Optimizer
    step: TrainingStep
    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    reports: tuple[EpochReport, ...] = ()


def make_trainee(run: GnnRun, trial: int, aggregate: ChosenAggregate | None = None) -> Trainee:
    """Return a trial at its beginning, with the run's aggregate or another one."""
    model = run.make_model(trial, aggregate)
    optimizer = make_optimizer(run, model)
    return Trainee(trial, model, optimizer, TrainingStep(run, model, optimizer))


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
        self._captured_before = trainee.step.captured
        self._seeds = step_seeds(run.settings, trainee.trial, trainee.epoch + 1, run.ranks.rank, len(batches))

    @property
    def loss(self) -> float:
        """Return the mean over the nodes of the batches done; NaN before the first."""
        nodes = sum(map(len, self._batches[: self.done]))
        return self.loss_sum / nodes if nodes else math.nan

    @property
    def captured(self) -> int:
        """Return how many of its steps were replayed from a capture."""
        return self._trainee.step.captured - self._captured_before

    def step(self, inputs: Inputs) -> None:
        """Forward, backward and update with one batch; the loss is the mean over the batch of all ranks."""
        number = self._first + inputs.number
        whole = len(self._batches[number])
        self._trainee.step(inputs, self._seeds[number], weight=1 / whole, counts=whole > self._run.ranks.rank)

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
        loss_sum, asked = self._trainee.step.read()
        self.done, self.loss_sum = number + 1, self.loss_sum + loss_sum
        if not math.isfinite(self.loss_sum):
            raise UsageError(
                f"the loss became {self.loss_sum} by batch {number + 1} of epoch {self._trainee.epoch + 1} of trial "
                f"{self._trainee.trial}. Lower learning_rate, now {self._run.settings.learning_rate:g}, and look for "
                "NaN or infinite features."
            )
        if asked or alone_asked:
            raise StoppedError("stopped")
