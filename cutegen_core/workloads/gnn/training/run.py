"""Gather what a run works with: settings, graph, device, ranks, aggregate, and whom it reports to."""

from __future__ import annotations

import functools
import math
import os
import platform
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cutegen_core.records.gnn import ComputeType, PipelineMode, Place, RunProgress, RunSettings
from cutegen_core.workloads.gnn.aggregate import ChosenAggregate
from cutegen_core.workloads.gnn.graph import GraphData, Ids
from cutegen_core.workloads.gnn.models.registry import make_model
from cutegen_core.workloads.gnn.models.sampled import SampledModel, Widths
from cutegen_core.workloads.gnn.reporting import Reporter
from cutegen_core.workloads.gnn.sampling.fixed import FixedLayout
from cutegen_core.workloads.gnn.sampling.loader import BatchLoader
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from cutegen_core.workloads.gnn.sampling.slots import SlotPool
from cutegen_core.workloads.gnn.stopping import StopRequest
from cutegen_core.workloads.gnn.training.capture import Capturer
from cutegen_core.workloads.gnn.training.devices import MOST_ENTRIES, Gpu, Sleeper, open_device
from cutegen_core.workloads.gnn.training.flights import ComputeDevice, Inputs, Step
from cutegen_core.workloads.gnn.training.pipeline import AfterBatch, PassTimes, run_batches
from cutegen_core.workloads.gnn.training.ranks import Ranks
from cutegen_core.workloads.gnn.training.schedule import derive_seed
from cutegen_core.workloads.gnn.training.settings import slots_of, threads_of

warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # a mapped graph, which nothing writes


@dataclass
class GnnRun:
    """One run in one process.

    Attributes:
        notes: what a reader of the result must know, in words.
        layout: to which training batches are padded, so that their steps can be captured; None where they are not.
        why_eager: why no step is captured; "" where they may be.
    """

    settings: RunSettings
    graph: GraphData
    aggregate: ChosenAggregate
    device: ComputeDevice
    ranks: Ranks
    reporter: Reporter
    stop: StopRequest
    pool: SlotPool
    notes: list[str] = field(default_factory=list)
    layout: FixedLayout | None = None
    why_eager: str = "the batches are not padded"

    @functools.cached_property
    def capturer(self) -> Capturer:
        """Return what captures steps; all of the run share its memory."""
        return Capturer(self.device.where)

    @property
    def computes(self) -> bool:
        """Return whether the device computes anything."""
        return not isinstance(self.device, Sleeper)

    def make_model(self, trial: int, aggregate: ChosenAggregate | None = None) -> SampledModel:
        """Return a trial's model with its first weights; they are the same on every rank.

        Args:
            aggregate: other than the run's.
        """
        aggregate = aggregate or self.aggregate
        torch.manual_seed(derive_seed(self.settings.seed, trial))
        widths = Widths(self.graph.width, self.settings.hidden, self.graph.classes)
        model = make_model(
            self.settings.model, widths, len(self.settings.fanouts), aggregate.run, self.settings.dropout
        )
        if aggregate.dtype not in (None, dtype_of(self.settings)):
            model.reads_by_entry = False  # it would convert the whole table in every step
        return model.to(self.device.where)

    def forward(self, model: SampledModel, inputs: Inputs) -> Tensor:
        """Return the logits of a batch in float32, computed in the run's precision."""
        half, dtype = self.settings.precision is ComputeType.BF16, dtype_of(self.settings)
        table, nodes = inputs.features, inputs.nodes
        if not (model.reads_by_entry and table.dtype is dtype and table.numel() < MOST_ENTRIES):
            table, nodes = inputs.rows().to(dtype), None
        with torch.autocast(self.device.where.type, torch.bfloat16, enabled=half):
            logits: Tensor = model(table, inputs.hops, nodes)
        return logits.float()

    def pass_over(
        self,
        batches: Sequence[Ids],
        sampling: SamplingOf,
        step: Step,
        after: AfterBatch,
        *,
        first: int = 0,
        mode: PipelineMode | None = None,
        layout: FixedLayout | None = None,
    ) -> PassTimes:
        """Run the step on batches of seeds, through the run's pipeline.

        Args:
            first: number of the first batch, where an epoch is resumed in the middle.
            mode: other than the settings' one.
            layout: pad batches to it.
        """
        mode = mode or self.settings.mode
        slots = slots_of(self.settings) if mode is PipelineMode.PIPELINED else 1
        loader = self.loader(batches, sampling, first=first, slots=slots, layout=layout)
        return run_batches(loader, threads_of(self.settings), self.device, step, mode, after)

    def loader(
        self, batches: Sequence[Ids], sampling: SamplingOf, *, first: int = 0, slots: int = 1,
        layout: FixedLayout | None = None,
    ) -> BatchLoader:  # fmt: skip
        """Return a loader of batches of seeds, for a with statement."""
        sampler = Sampler(self.graph, sampling.fanouts, layered=self.settings.layered, seed=sampling.seed)
        slices = self.settings.features is Place.HOST
        return BatchLoader(
            self.graph, sampler, batches, threads=threads_of(self.settings), slots=slots,
            pin=isinstance(self.device, Gpu), slice_features=slices, first=first, pool=self.pool, layout=layout,
            transposed=sampling.transposed,
        )  # fmt: skip

    def add_up(self, count: int) -> int:
        """Return the sum of a count over all ranks."""
        return int(self.ranks.add(torch.tensor(count, device=self.device.where)).item())

    def describe_machine(self) -> dict[str, str]:
        """Return the conditions of every figure of this run."""
        return {
            "device": self.device.note,
            "ranks": str(self.ranks.world),
            "processors": str(len(os.sched_getaffinity(0))),
            "loader threads": str(threads_of(self.settings)),
            "torch": torch.__version__,
            "cuda": torch.version.cuda or "",
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        }


def dtype_of(settings: RunSettings) -> torch.dtype:
    """Return what models compute in."""
    return torch.bfloat16 if settings.precision is ComputeType.BF16 else torch.float32


@dataclass(frozen=True)
class SamplingOf:
    """How a pass draws neighbours, and whether it also transposes what it drew."""

    fanouts: tuple[int, ...]
    seed: int
    transposed: bool = False


def open_run(
    settings: RunSettings, graph: GraphData, aggregate: ChosenAggregate, ranks: Ranks, reporter: Reporter,
    stop: StopRequest,
) -> GnnRun:  # fmt: skip
    """Return a run whose device is open."""
    table = torch.from_numpy(graph.features) if settings.features is Place.DEVICE else None
    torch.set_float32_matmul_precision("high" if settings.precision is ComputeType.TF32 else "highest")
    device = open_device(settings.device, table, dtype_of(settings), ranks.local)
    return GnnRun(settings, graph, aggregate, device, ranks, reporter, stop, SlotPool(pin=isinstance(device, Gpu)))


class Estimate:
    """Say how far a run is, and how long it will still take by the batches done so far."""

    def __init__(self, run: GnnRun, epochs_to_do: int) -> None:
        self._run = run
        self._left = epochs_to_do
        self._spent = 0.0
        self._began = time.monotonic()
        self._share = 0.0

    def epoch_ended(self) -> None:
        """Count one epoch, with what was done around it."""
        self._left -= 1
        self._spent += 1

    def show(self, phase: str, trial: int, epoch: int, done: int, total: int, loss: float) -> None:
        """Write a progress line if one is due; a loss that was not read yet is NaN."""
        done_epochs = self._spent + (done / total if total else 0)
        elapsed = time.monotonic() - self._began
        left = elapsed / done_epochs * (self._left - done / max(total, 1)) if done_epochs > 0 else None
        settings = self._run.settings
        self._run.reporter.progress(
            RunProgress(phase, trial, epoch, settings.epochs, done, total, None if math.isnan(loss) else loss, left)
        )
