"""Define what a run of the GNN workload is asked and what it reports: settings, progress, times and results.

Pages, the command line and the engine know only these records; torch is imported by the run's own process.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import StrEnum

KERNEL_PREFIX = "kernel:"
"""Begins the name of an aggregation that is a kernel: `kernel:SESSION.STEP`."""

TORCH_AGGREGATES = ("embedding_bag", "index_add", "spmm")
"""The aggregations that PyTorch itself computes; the first is the default and the honest baseline."""


DETERMINISTIC_AGGREGATES = ("embedding_bag",)
"""Those of PyTorch's whose means are added up in one order on a GPU, too."""


class Task(StrEnum):
    """What a run does."""

    TRAIN = "train"
    INFER = "infer"
    BENCH = "bench"


class ModelName(StrEnum):
    """The architectures of SALIENT's paper."""

    SAGE = "sage"
    GAT = "gat"
    GIN = "gin"
    SAGE_RESIDUAL = "sage-residual"


class ComputeType(StrEnum):
    """What a model computes in; parameters are always float32. TF32 rounds the factors of products on tensor cores."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"


class PipelineMode(StrEnum):
    """Whether the stages of a batch run one after another or overlap those of other batches."""

    SERIAL = "serial"
    PIPELINED = "pipelined"


class Gradient(StrEnum):
    """In which order an aggregation adds up its gradient: in any, on a GPU also with atomics, or always in one."""

    ANY = "any"
    DETERMINISTIC = "deterministic"


class Steps(StrEnum):
    """How the host starts the training steps of a GPU: each kernel by itself, or whole steps that were captured."""

    CAPTURED = "captured"
    EAGER = "eager"


class Place(StrEnum):
    """Where the table of features lies during a run."""

    HOST = "host"
    DEVICE = "device"


class Schedule(StrEnum):
    """How the learning rate changes from epoch to epoch."""

    CONSTANT = "constant"
    COSINE = "cosine"
    STEP = "step"


class BatchStage(StrEnum):
    """A stage of a batch; PREPARE is sampling and slicing by the loader's threads."""

    PREPARE = "prepare"
    TRANSFER = "transfer"
    COMPUTE = "compute"


@dataclass(frozen=True)
class GraphSettings:
    """Which graph: a generated one, or a folder or file on disk.

    Attributes:
        source: "blocks" (stochastic block model with classes), "power-law", or a path (`docs/gnn.md` lists formats).
        nodes, degree, classes, width, seed: of a generated graph: nodes, mean in-degree, number of classes, features
            per node, seed of its generator. Not used for a path.
    """

    source: str = "blocks"
    nodes: int = 20_000
    degree: int = 16
    classes: int = 8
    width: int = 64
    seed: int = 0


@dataclass(frozen=True)
class RunSettings:
    """All settings of a run.

    Attributes:
        fanouts: neighbours drawn per node and hop, from the seeds outwards; one layer of the model each.
        inference_fanouts: the same for sampled inference.
        layered: every hop draws again for all nodes known so far, as SALIENT does; else only for the newest ones.
        aggregate: one of `TORCH_AGGREGATES`, or `kernel:SESSION.STEP`.
        gradient: deterministic: over the transposed graph, which is prepared with each batch.
        threads: threads that prepare batches; 0 means one per processor, beside a GPU two fewer.
        steps: on a GPU; where they cannot be captured, the result's machine says why.
        slots: batches that are being prepared, lie ready or are copied; bounds the memory. 0 means half as
            many more than threads, so that every thread has work, and two.
        device: "cpu", "cuda", or "sleep:MILLISECONDS", a declared stand-in for a GPU's step that computes nothing.
        ranks: processes of data-parallel training, one per GPU; `batch_size` is that of all ranks together.
        checkpoint: folder for checkpoints, "" for none; a run whose folder has one resumes it.
        trials: how often the training is repeated with other seeds.
    """

    task: Task = Task.TRAIN
    graph: GraphSettings = GraphSettings()
    model: ModelName = ModelName.SAGE
    hidden: int = 256
    fanouts: tuple[int, ...] = (15, 10, 5)
    inference_fanouts: tuple[int, ...] = (20, 20, 20)
    layered: bool = False
    batch_size: int = 1024
    epochs: int = 10
    learning_rate: float = 0.003
    schedule: Schedule = Schedule.CONSTANT
    dropout: float = 0.5
    precision: ComputeType = ComputeType.FP32
    aggregate: str = "embedding_bag"
    gradient: Gradient = Gradient.ANY
    mode: PipelineMode = PipelineMode.PIPELINED
    steps: Steps = Steps.CAPTURED
    features: Place = Place.HOST
    threads: int = 0
    slots: int = 0
    device: str = "cpu"
    ranks: int = 1
    checkpoint: str = ""
    trials: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Span:
    """One stage of one batch on the run's clock, for the timeline.

    Attributes:
        lane: thread or stream that did it, such as "prepare 2", "copy" or "compute".
        start_s, end_s: seconds since the epoch began.
    """

    stage: BatchStage
    lane: str
    batch: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class StageTimes:
    """Times of one epoch in seconds.

    Attributes:
        prepare, transfer, compute: work of the stage, summed over batches and threads.
        waited_prepare, waited_transfer: exposed time: the trainer had nothing to do but wait for it.
        threads: threads that prepared.
    """

    prepare: float
    transfer: float
    compute: float
    waited_prepare: float
    waited_transfer: float
    threads: int


@dataclass(frozen=True)
class EpochReport:
    """One epoch of training or one pass of inference.

    Attributes:
        epoch: counted from 1.
        loss: mean over the training nodes; NaN for inference.
        accuracy: of the validation nodes (training) or of the test nodes (inference), 0 to 1; None where not measured.
        edges: sampled edges.
        timeline: spans of the epoch's first batches.
        aggregate, mode: what the epoch ran with, where a run compares several; else "" and None.
        captured: of the batches' steps, those that were replayed from a capture.

    Of an epoch that was resumed in the middle, seconds, batches, edges and times are those of the rest.
    """

    trial: int
    epoch: int
    seconds: float
    batches: int
    edges: int
    loss: float
    accuracy: float | None
    times: StageTimes
    timeline: tuple[Span, ...] = ()
    aggregate: str = ""
    mode: PipelineMode | None = None
    captured: int = 0

    @property
    def over_longest_stage(self) -> float:
        """Return P: the epoch's time over that of its longest stage; 1 where the others are hidden behind it."""
        times = self.times
        return self.seconds / max(times.prepare / times.threads, times.transfer, times.compute)


@dataclass(frozen=True)
class AggregateTimes:
    """What a `bench` run measured of one aggregate.

    Attributes:
        epoch_s: median over the rounds.
        compute_only_s: an epoch with batches that lie ready on the device.
        share: of the compute-only time, what the aggregate takes by itself; None where nothing is aggregated.
    """

    aggregate: str
    epoch_s: float
    compute_only_s: float
    share: float | None

    @property
    def over_compute_only(self) -> float:
        """Return C: the epoch's time over that of its computation."""
        return self.epoch_s / self.compute_only_s


@dataclass(frozen=True)
class RunProgress:
    """Where a run is; written every half second at most.

    Attributes:
        phase: what is being done, in words for a person.
        done, total: batches of the epoch; total 0 while it is not known.
        left_s: estimate of the time to the end of the run; None while there is none.
    """

    phase: str
    trial: int = 1
    epoch: int = 0
    epochs: int = 0
    done: int = 0
    total: int = 0
    loss: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class GraphFacts:
    """The size of the graph that was used."""

    name: str
    nodes: int
    edges: int
    width: int
    classes: int
    train: int
    valid: int
    test: int


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        machine: device, processors, versions: the conditions of every figure.
        accuracies: final test accuracy of each trial.
        full_accuracy, full_seconds: layer-wise inference over all neighbours, where it was asked for.
        epochs: of a training, only the last epoch of a trial has its timeline.
        kernel_note: of a plugged kernel, how it ran (on the GPU from its cubin, or on the emulator); "" without one.
        compute_only_s: a `bench` run's epoch with batches that lie ready, the denominator of C; None elsewhere.
        aggregate_share: share of the compute time that is aggregation, for Amdahl's bound; None where not measured.
        aggregates: of a `bench` run, the run's own aggregate first.
        notes: what a reader must know of this run, in words.
    """

    settings: RunSettings
    graph: GraphFacts
    machine: dict[str, str]
    epochs: tuple[EpochReport, ...]
    accuracies: tuple[float, ...] = ()
    sampled_accuracy: float | None = None
    sampled_seconds: float | None = None
    full_accuracy: float | None = None
    full_seconds: float | None = None
    features_only_accuracy: float | None = None
    compute_only_s: float | None = None
    aggregate_share: float | None = None
    kernel_note: str = ""
    aggregates: tuple[AggregateTimes, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def mean_accuracy(self) -> float | None:
        """Return the mean over the trials; None where nothing was tested."""
        return statistics.fmean(self.accuracies) if self.accuracies else None

    @property
    def accuracy_deviation(self) -> float | None:
        """Return the standard deviation over the trials; None with fewer than two."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None
