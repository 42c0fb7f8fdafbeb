"""Check a run's settings before anything is built, and before torch is imported."""

from __future__ import annotations

import math
import os
import re

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import (
    KERNEL_PREFIX,
    TORCH_AGGREGATES,
    ComputeType,
    Gradient,
    ModelName,
    RunSettings,
    Task,
)
from cutegen_core.records.gnn_fields import ATTENTION_HEADS

_SLEEP = re.compile(r"sleep:(\d+(?:\.\d+)?)")


def check_settings(settings: RunSettings) -> None:
    """Refuse what cannot run.

    Raises:
        UsageError: the text names the field, its value and what it may be.
    """
    _check_numbers(settings)
    _check_hops(settings)
    _check_model(settings)
    _check_device(settings)
    if settings.task is Task.INFER and not settings.checkpoint:
        raise UsageError("task infer needs `checkpoint`: the folder of a training run. Train with that folder first.")


def sleep_of(device: str) -> float | None:
    """Return the seconds of a declared sleep, `sleep:MILLISECONDS`; None for a real device."""
    found = _SLEEP.fullmatch(device)
    return float(found[1]) / 1000 if found else None


def threads_of(settings: RunSettings) -> int:
    """Return how many threads prepare in each rank; beside a GPU, the trainer and autograd have a processor each."""
    if settings.threads:
        return settings.threads
    own = len(os.sched_getaffinity(0)) // settings.ranks
    return max(1, own - 2 if settings.device == "cuda" else own)


def slots_of(settings: RunSettings) -> int:
    """Return how many batches may have memory at once.

    By default one a thread and half as many that lie ready, since batches are taken in order and some take longer than
    others, and two that are copied.
    """
    threads = threads_of(settings)
    return settings.slots or threads + threads // 2 + 2


def _check_numbers(settings: RunSettings) -> None:
    least = {
        "hidden": 1, "batch_size": 1, "epochs": 1, "threads": 0, "slots": 0, "ranks": 1, "trials": 1, "seed": 0,
    }  # fmt: skip
    for name, lowest in least.items():
        if getattr(settings, name) < lowest:
            raise UsageError(f"{name} is {getattr(settings, name)}; it must be at least {lowest}.")
    if settings.slots == 1:
        raise UsageError(
            "slots is 1; it must be 0 (enough for all threads) or at least 2, one copied and one prepared."
        )
    if not (math.isfinite(settings.learning_rate) and settings.learning_rate > 0):
        raise UsageError(f"learning_rate is {settings.learning_rate:g}; it must be above 0.")
    if not 0 <= settings.dropout < 1:
        raise UsageError(f"dropout is {settings.dropout:g}; it must be at least 0 and below 1.")
    if settings.batch_size < settings.ranks:
        raise UsageError(
            f"batch_size {settings.batch_size} is that of all {settings.ranks} ranks: one node each at least."
        )


def _check_hops(settings: RunSettings) -> None:
    for name in ("fanouts", "inference_fanouts"):
        fanouts = getattr(settings, name)
        if not fanouts or min(fanouts) < 1:
            raise UsageError(f"{name} is {list(fanouts)}; it needs one number above 0 per hop, such as 15,10,5.")
    if len(settings.fanouts) != len(settings.inference_fanouts):
        raise UsageError(
            f"inference_fanouts has {len(settings.inference_fanouts)} hops, fanouts {len(settings.fanouts)}: each is "
            "one layer of the model, so give as many."
        )


def _check_model(settings: RunSettings) -> None:
    if settings.model is not ModelName.GAT:
        return
    if settings.aggregate != TORCH_AGGREGATES[0]:
        raise UsageError(
            f"model gat weights each edge by its own attention, so aggregate {settings.aggregate} would not be used. "
            f"Leave aggregate at {TORCH_AGGREGATES[0]}, or choose sage, gin or sage-residual."
        )
    if settings.gradient is Gradient.DETERMINISTIC:
        raise UsageError(
            f"model gat adds up its gradient in no fixed order: leave gradient at {Gradient.ANY}, or choose another "
            "model."
        )
    if settings.hidden % ATTENTION_HEADS:
        raise UsageError(
            f"hidden is {settings.hidden}; for model gat it must be a multiple of its {ATTENTION_HEADS} heads."
        )


def _check_device(settings: RunSettings) -> None:
    if settings.device not in ("cpu", "cuda") and sleep_of(settings.device) is None:
        raise UsageError(f'device is "{settings.device}": choose cpu, cuda, or sleep:MILLISECONDS.')
    if settings.precision is ComputeType.TF32 and settings.device == "cpu":
        raise UsageError("precision is tf32, which only GPUs have: on the cpu choose fp32 or bf16.")
    if sleep_of(settings.device) is None:
        return
    if settings.task is Task.INFER:
        raise UsageError("device sleep computes nothing, so it has no accuracy: infer on cpu or cuda.")
    if settings.ranks > 1 or settings.checkpoint:
        raise UsageError("device sleep computes nothing: leave ranks at 1 and checkpoint empty.")
    if settings.aggregate.startswith(KERNEL_PREFIX):
        raise UsageError("device sleep computes nothing: a kernel would not run. Choose cpu or cuda.")
