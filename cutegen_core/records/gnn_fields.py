"""Describe every setting of a GNN run: title, help, how its text is read, and what does not go together.

The page's form, the options of `cutegen gnn`, their documentation and the run itself share this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import (
    DETERMINISTIC_AGGREGATES,
    KERNEL_PREFIX,
    TORCH_AGGREGATES,
    ComputeType,
    Gradient,
    ModelName,
    PipelineMode,
    Place,
    RunSettings,
    Schedule,
    Steps,
    Task,
)

GENERATED = ("blocks", "power-law")
"""Names of generated graphs; any other source is a path."""
MOST_LAYERS = 6
ATTENTION_HEADS = 4
"""Of a layer of GAT; they share its width."""
_LONGEST = 60
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_STEP = r"[0-9a-f]{4,32}\.[1-9]\d{0,5}"
_KERNEL = re.compile(rf"{KERNEL_PREFIX}{_STEP}(\+{_STEP})?")
"""A kernel, or one for the forward and one for the gradient."""
_SLEEP = re.compile(r"sleep:([0-9]{1,5}(?:\.[0-9]{1,6})?)")

Read = Callable[[str], Any]


class SettingField(NamedTuple):
    """One setting.

    Attributes:
        name: the attribute of `RunSettings`, such as "batch_size", or of its graph: "graph.nodes".
        read: reads a typed text; ValueError says what is wrong with it.
        choices: the values there are; empty where any text is read.
    """

    name: str
    title: str
    help: str
    read: Read
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """Return the name on the command line: "--batch-size"; of a graph "--graph-nodes"."""
        return "--" + self.name.replace(".source", "").replace(".", "-").replace("_", "-")

    def of(self, settings: RunSettings) -> Any:  # noqa: ANN401 - the type is the field's
        found: Any = settings
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def text(self, settings: RunSettings) -> str:
        """Write the value as a person would type it."""
        value = self.of(settings)
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:g}" if isinstance(value, float) else str(value)

    def put(self, settings: RunSettings, value: Any) -> RunSettings:  # noqa: ANN401
        if self.name.startswith("graph."):
            return replace(settings, graph=replace(settings.graph, **{self.name.removeprefix("graph."): value}))
        return replace(settings, **{self.name: value})


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")


def _whole(low: int, high: int) -> Read:
    def read(text: str) -> int:
        digits = text.strip().replace(",", "").replace("_", "")
        if len(digits) > 20 or not (digits.isascii() and digits.isdecimal()) or not low <= int(digits) <= high:
            raise ValueError(f"{_shown(text)} is no whole number from {low:,} to {high:,}")
        return int(digits)

    return read


def _slots(text: str) -> int:
    count: int = _whole(0, 1024)(text)
    if count == 1:
        raise ValueError("1 is too few: one batch is copied while another is prepared. Give 0 or at least 2")
    return count


def _real(low: float, high: float, *, open_above: bool = False) -> Read:
    def read(text: str) -> float:
        typed = text.strip()
        value = float(typed) if len(typed) <= 40 and _NUMBER.fullmatch(typed) else float("nan")
        if not (low <= value < high if open_above else low <= value <= high):
            raise ValueError(f"{_shown(text)} is no number from {low:g} {'to below' if open_above else 'to'} {high:g}")
        return value

    return read


def _fanouts(text: str) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[,\s]+", text.strip(" ()[]")) if part]
    if not 1 <= len(parts) <= MOST_LAYERS:
        raise ValueError(f"{_shown(text)} is no list of 1 to {MOST_LAYERS} numbers, such as 15,10,5")
    return tuple(_whole(1, 1000)(part) for part in parts)


def _word(kind: type[StrEnum]) -> tuple[Read, tuple[str, ...]]:
    choices = tuple(map(str, kind))

    def read(text: str) -> StrEnum:
        if text not in choices:
            raise ValueError(f"{_shown(text)} is none of {', '.join(choices)}")
        return kind(text)

    return read, choices


def _yes_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{_shown(text)} is neither yes nor no")
    return text == "yes"


def _line(text: str) -> str:
    typed = text.strip()
    if len(typed) > 4000 or "\0" in typed or "\n" in typed:
        raise ValueError(f"{_shown(text)} is no path")
    return typed


def _source(text: str) -> str:
    if not text.strip():
        raise ValueError("name a graph: blocks, power-law, or the path of one")
    return _line(text)


def _aggregate(text: str) -> str:
    typed = text.strip()
    if typed in TORCH_AGGREGATES or _KERNEL.fullmatch(typed):
        return typed
    raise ValueError(f"{_shown(text)} is none of {', '.join(TORCH_AGGREGATES)}, and no {KERNEL_PREFIX}SESSION.STEP")


def _device(text: str) -> str:
    typed = text.strip()
    if typed in ("cpu", "cuda"):
        return typed
    name, _, milliseconds = typed.partition(":")
    if (
        name == "sleep"
        and re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", milliseconds)
        and 0 < float(milliseconds) <= 60_000
    ):
        return typed
    raise ValueError(f"{_shown(text)} is none of cpu, cuda, sleep:MILLISECONDS (at most 60,000)")


FIELDS = (
    SettingField("task", "Task", "train: learn, then measure the accuracy. infer: only run a trained model over the "
                 "test nodes (from a checkpoint). bench: time epochs, also with batches that lie ready.", *_word(Task)),
    SettingField("graph.source", "Graph", "blocks: a generated graph whose classes are communities. power-law: a "
                 "generated graph with a few very large hubs. Anything else is the path of a graph on disk.", _source),
    SettingField("graph.nodes", "Nodes", "How many nodes a generated graph has.", _whole(100, 200_000_000)),
    SettingField("graph.degree", "Mean degree", "How many neighbours a node of a generated graph has on average.",
                 _whole(1, 1000)),
    SettingField("graph.classes", "Classes", "How many classes the nodes of a generated graph belong to.",
                 _whole(2, 1000)),
    SettingField("graph.width", "Features", "Numbers per node in a generated graph.", _whole(1, 4096)),
    SettingField("graph.seed", "Graph seed", "The same seed generates the same graph.", _whole(0, 2**31 - 1)),
    SettingField("model", "Model", "GraphSAGE, GAT (attention), GIN, or GraphSAGE with residual connections.",
                 *_word(ModelName)),
    SettingField("hidden", "Hidden width", "Numbers per node between two layers.", _whole(1, 8192)),
    SettingField("fanouts", "Fanouts", "Neighbours drawn per node and layer, from the batch's nodes outwards; one "
                 "layer of the model each.", _fanouts),
    SettingField("inference_fanouts", "Fanouts to infer", "The same when the accuracy is measured.", _fanouts),
    SettingField("layered", "Layered sampling", "yes: every layer draws again for all nodes known so far, as SALIENT "
                 "does. no: only for the newest ones, which is cheaper.", _yes_no, ("no", "yes")),
    SettingField("batch_size", "Batch", "Training nodes per batch, of all ranks together.", _whole(1, 1 << 20)),
    SettingField("epochs", "Epochs", "Passes over the training nodes.", _whole(1, 100_000)),
    SettingField("learning_rate", "Learning rate", "Of Adam, at the beginning.", _real(1e-8, 10)),
    SettingField("schedule", "Schedule", "How the learning rate changes from epoch to epoch.", *_word(Schedule)),
    SettingField("dropout", "Dropout", "Share of a layer's numbers that is left out while training.",
                 _real(0, 1, open_above=True)),
    SettingField("precision", "Precision", "What the model computes in; its parameters are always float32. "
                 "tf32: float32, but products on a GPU's tensor cores.",
                 *_word(ComputeType)),
    SettingField("aggregate", "Aggregation", "What computes the mean over neighbours: one of PyTorch's three, or an "
                 "accepted kernel, kernel:SESSION.STEP; with +SESSION.STEP another one for the gradient.", _aggregate),
    SettingField("gradient", "Gradient", "any: the aggregation adds up as is fastest, on a GPU perhaps in no fixed "
                 "order. deterministic: in one order, by transposed rows that are prepared with each batch, so that "
                 "two runs have the same losses in every bit.", *_word(Gradient)),
    SettingField("mode", "Mode", "serial: sample, copy, compute, one after another. pipelined: the next batches are "
                 "prepared and copied while this one is computed.", *_word(PipelineMode)),
    SettingField("steps", "Steps", "captured: batches are padded to one size, and a GPU's step is captured once and "
                 "then started by one call. eager: the host starts every kernel.", *_word(Steps)),
    SettingField("features", "Features on", "host: sliced per batch by the processor and copied. device: the whole "
                 "table lies on the device, and the kernel gathers from it.", *_word(Place)),
    SettingField("threads", "Threads", "Threads that prepare batches; 0: one per processor, with a GPU two fewer.",
                 _whole(0, 1024)),
    SettingField("slots", "Slots", "Batches in preparation or ready; each takes memory. 0: half as many more than "
                 "threads, and two.", _slots),
    SettingField("device", "Device", "cpu, cuda, or sleep:20, a declared stand-in: a GPU's step of 20 ms that "
                 "computes nothing, to see the overlap.", _device),
    SettingField("ranks", "Ranks", "Processes that train together, one per GPU.", _whole(1, 64)),
    SettingField("checkpoint", "Checkpoint folder", "Written after each epoch; a run whose folder has one goes on "
                 "from it. Empty: a job keeps it in the workspace, the command line keeps none.", _line),
    SettingField("trials", "Trials", "How often the training is repeated with other seeds, for a mean and a deviation.",
                 _whole(1, 1000)),
    SettingField("seed", "Seed", "Of the parameters, the order of the nodes and the sampling.", _whole(0, 2**31 - 1)),
)  # fmt: skip
"""Every setting, in the order in which forms and help show them."""

BY_NAME: Mapping[str, SettingField] = {field.name: field for field in FIELDS}


def read_settings(texts: Mapping[str, str], start: RunSettings | None = None) -> tuple[RunSettings, dict[str, str]]:
    """Return the settings as typed, and for each field that is wrong what is wrong with it; of fields that do not fit
    one another only once all can be read.

    Args:
        texts: typed text by name of field; a field that is missing keeps the value of `start`.
    """
    settings, wrong = start or RunSettings(), {}
    for name, text in texts.items():
        try:
            settings = BY_NAME[name].put(settings, BY_NAME[name].read(text))
        except ValueError as error:
            wrong[name] = f"{error}."
    return settings, wrong or together(settings)


def together(settings: RunSettings) -> dict[str, str]:
    """Return, by name of field, what does not fit the other settings."""
    wrong = {}
    if len(settings.inference_fanouts) != len(settings.fanouts):
        layers = len(settings.fanouts)
        wrong["inference_fanouts"] = f"The model has {layers} layers by its fanouts: give {layers} numbers here, too."
    if settings.batch_size < settings.ranks:
        wrong["batch_size"] = f"{settings.ranks} ranks share a batch: it needs at least as many nodes."
    generated = settings.graph.source in GENERATED
    if generated and settings.graph.degree >= settings.graph.nodes:
        wrong["graph.degree"] = "A node cannot have as many neighbours as there are nodes."
    if generated and settings.graph.classes > settings.graph.nodes // 10:
        wrong["graph.classes"] = "Each class needs at least ten nodes."
    if settings.task is Task.INFER and not settings.checkpoint:
        wrong["checkpoint"] = "To infer, name the folder with the checkpoints of a training run."
    if settings.precision is ComputeType.TF32 and settings.device == "cpu":
        wrong["precision"] = "Only GPUs have tf32: on the cpu choose fp32 or bf16."
    in_order = settings.aggregate.startswith(KERNEL_PREFIX) or settings.aggregate in DETERMINISTIC_AGGREGATES
    if settings.gradient is Gradient.DETERMINISTIC and not in_order:
        wrong["gradient"] = (
            f"{settings.aggregate} has none: take {', '.join(DETERMINISTIC_AGGREGATES)} or a kernel, or any."
        )
    return wrong | _of_gat(settings) | _of_sleep(settings)


def _of_gat(settings: RunSettings) -> dict[str, str]:
    if settings.model is not ModelName.GAT:
        return {}
    wrong = {}
    if settings.aggregate != TORCH_AGGREGATES[0]:
        wrong["aggregate"] = f"GAT weights each edge itself and takes no other: leave {TORCH_AGGREGATES[0]}."
    if settings.gradient is Gradient.DETERMINISTIC:
        wrong["gradient"] = "GAT weights each edge itself, and adds up its gradient in no fixed order: leave any."
    if settings.hidden % ATTENTION_HEADS:
        wrong["hidden"] = f"GAT has {ATTENTION_HEADS} heads, so this must be a multiple of {ATTENTION_HEADS}."
    return wrong


def _of_sleep(settings: RunSettings) -> dict[str, str]:
    """Refuse what needs a computation: a declared sleep computes nothing."""
    if not settings.device.startswith("sleep:"):
        return {}
    wrong = {}
    if settings.aggregate.startswith(KERNEL_PREFIX):
        wrong["device"] = "A sleep computes nothing, so it says nothing about a kernel. Take cpu or cuda."
    if settings.task is Task.INFER:
        wrong["task"] = "A sleep computes nothing, so it has no accuracy. Infer on cpu or cuda."
    if settings.ranks > 1:
        wrong["ranks"] = "A sleep computes nothing: it has one rank."
    if settings.checkpoint:
        wrong["checkpoint"] = "A sleep computes nothing, so there is nothing to keep: leave this empty."
    return wrong


def check(settings: RunSettings) -> None:
    """Raise UsageError if a setting is out of its range, or does not fit the others."""
    _, wrong = read_settings({field.name: field.text(settings) for field in FIELDS}, settings)
    if wrong:
        raise UsageError(" ".join(f"{BY_NAME[name].title}: {text}" for name, text in wrong.items()))
