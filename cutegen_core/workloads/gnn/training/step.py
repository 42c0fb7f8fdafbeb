"""Take a training step: forward, backward, sum over the ranks, update.

1. A step of a GPU run on a padded batch can be captured: the host then starts it with one call instead of about a
   hundred. The exchange between ranks stays outside, between two captures.
2. The first such steps run as they are: libraries and the optimizer allocate what they keep. The last of them shows
   whether anything waits for the device, which forbids a capture.
3. Then the step is captured once for each memory in which batches lie, and replayed whenever a batch lies there.
   Numbers that change from step to step are read from memory that is written before.
4. Other batches, and steps that cannot be captured, run as they are, and are counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch.optim import Adam, Optimizer

from cutegen_core.workloads.gnn.models.sampled import SampledModel
from cutegen_core.workloads.gnn.sampling.fixed import IGNORED
from cutegen_core.workloads.gnn.training.capture import CaptureError
from cutegen_core.workloads.gnn.training.flights import Inputs
from cutegen_core.workloads.gnn.training.ranks import GradientBucket
from cutegen_core.workloads.gnn.training.schedule import seed_step

if TYPE_CHECKING:
    from cutegen_core.workloads.gnn.training.run import GnnRun

warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")

Stage = Callable[[], None]
_FIRST_AS_THEY_ARE = 3


class TrainingStep:
    """The step of one model and its optimizer.

    Attributes:
        captured: steps that were replayed so far.
        refusal: why no step is captured; "" while steps are, or may yet be.
    """

    def __init__(self, run: GnnRun, model: SampledModel, optimizer: Optimizer) -> None:
        self._run, self._model, self._optimizer = run, model, optimizer
        self._parameters = tuple(model.parameters())
        self._where = run.device.where
        self._sums = torch.zeros(2, device=self._where, dtype=torch.float64)
        self._numbers = torch.zeros(2, device=self._where)
        self._written = (0.0, 0.0)
        self._asked = torch.zeros(1, device=self._where)
        self._bucket = None if run.ranks.world == 1 else GradientBucket(self._parameters, 2)
        self._captures: dict[int, list[Stage]] = {}
        self._failures = 0
        self._ran = 0
        self.captured = 0
        self.refusal = run.why_eager

    def __call__(self, inputs: Inputs, seed: int, *, weight: float, counts: bool) -> None:
        """Take the step.

        Args:
            seed: of what is drawn at random.
            weight: of each node's loss in the gradient; the same for all ranks' nodes.
            counts: False where the batch only repeats a node for a rank that has none left.
        """
        seed_step(self._where, seed)
        self._write_numbers(weight if counts else 0.0, float(counts))
        if not inputs.place or self.refusal:
            self._go(self.stages(inputs))
        elif self._is_captured(inputs.place) or self._capture(inputs, seed):
            self._go(self._captures[inputs.place])
            self.captured += 1
        else:
            self._go(self.stages(inputs))

    def run_as_it_is(self, inputs: Inputs) -> None:
        """Take the step with the numbers and the seed of the step before, without a capture."""
        self._go(self.stages(inputs))

    def read(self) -> tuple[float, bool]:
        """Return the sum of the nodes' losses since it was read last, and whether a rank was asked to end; waits."""
        loss_sum, asked = self._sums.tolist()
        self._sums.zero_()
        return loss_sum, bool(asked)

    def stages(self, inputs: Inputs) -> list[Stage]:
        """Return the parts of a step, between which the ranks exchange their sums."""
        if self._bucket is None:
            return [lambda: self._all(inputs)]
        return [lambda: self._gradients(inputs), self._update]

    def _go(self, stages: list[Stage]) -> None:
        for number, stage in enumerate(stages):
            if number:
                self._exchange()
            stage()

    def _is_captured(self, place: int) -> bool:
        if self._run.capturer.failures != self._failures:  # another model's: see `Capturer.failures`
            self._failures = self._run.capturer.failures
            self._captures.clear()
        return place in self._captures

    def _capture(self, inputs: Inputs, seed: int) -> bool:
        """Return whether the step is captured for the batch's memory now; not during the first steps."""
        self._ran += 1
        try:
            if self._ran == _FIRST_AS_THEY_ARE:
                self._try(inputs, seed)
            if self._ran <= _FIRST_AS_THEY_ARE:
                return False
            capturer = self._run.capturer
            self._captures[inputs.place] = [capturer.capture(stage) for stage in self.stages(inputs)]
        except CaptureError as error:
            self.refusal = f"{error}"
            self._forget()
            seed_step(self._where, seed)
        return not self.refusal

    def _try(self, inputs: Inputs, seed: int) -> None:
        """Compute gradients and drop them, where nothing may wait for the device."""
        try:
            with self._run.capturer.refuse_waits():
                self._backward(inputs)
        finally:
            self._forget()
            seed_step(self._where, seed)

    def _all(self, inputs: Inputs) -> None:
        loss = self._backward(inputs)
        self._sums[0].add_(loss)
        self._optimizer.step()
        self._forget()

    def _gradients(self, inputs: Inputs) -> None:
        assert self._bucket is not None
        loss = self._backward(inputs) * self._numbers[1]
        self._bucket.fill(torch.cat([loss.reshape(1), self._asked]))
        self._forget()

    def _exchange(self) -> None:
        assert self._bucket is not None
        if self._run.stop.asked:
            self._bucket.extra[1].fill_(1.0)
        self._run.ranks.add(self._bucket.whole)

    def _update(self) -> None:
        assert self._bucket is not None
        self._bucket.use()
        self._sums.add_(self._bucket.extra)
        self._optimizer.step()
        self._forget()

    def _backward(self, inputs: Inputs) -> torch.Tensor:
        """Compute gradients; return the sum of the nodes' losses."""
        logits = self._run.forward(self._model, inputs)
        loss = F.cross_entropy(logits, inputs.labels, reduction="sum", ignore_index=IGNORED)
        # In this thread: handing each step to a thread of autograd's, and Python's lock with it, takes longer.
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward(self._numbers[0])  # type: ignore[no-untyped-call]
        return loss.detach()

    def _forget(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _write_numbers(self, *numbers: float) -> None:
        if numbers != self._written:
            for number, value in enumerate(numbers):
                self._numbers[number].fill_(value)
            self._written = numbers  # type: ignore[assignment]


def make_optimizer(run: GnnRun, model: SampledModel) -> Optimizer:
    """Return the optimizer of a model's weights; on a GPU it reads the learning rate from the device."""
    rate = run.settings.learning_rate
    if run.device.where.type != "cuda":
        return Adam(model.parameters(), lr=rate)
    return Adam(model.parameters(), lr=torch.tensor(rate, device=run.device.where), fused=True, capturable=True)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Give the learning rate of the next steps."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def load_optimizer(optimizer: Optimizer, state: dict[str, object]) -> None:
    """Take moments and counts over from a checkpoint, which may be of another kind of device, and no settings."""
    own = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    groups = [{**saved, **mine} for saved, mine in zip(state["param_groups"], own, strict=True)]  # type: ignore[call-overload]
    optimizer.load_state_dict({**state, "param_groups": groups})
