"""Derive what changes from epoch to epoch: the learning rate, the order of the training nodes, and seeds.

All are functions of the settings and of (trial, epoch, batch, rank). So a run that is resumed goes on as if it had
never stopped, and a checkpoint holds no state of a random generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from cutegen_core.records.gnn import RunSettings, Schedule

STEP_EPOCHS = 10
"""The schedule `step` halves the learning rate every so many epochs."""

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]


def learning_rate(settings: RunSettings, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 1."""
    match settings.schedule:
        case Schedule.CONSTANT:
            return settings.learning_rate
        case Schedule.COSINE:
            return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / settings.epochs))
        case Schedule.STEP:
            return settings.learning_rate * 0.5 ** ((epoch - 1) // STEP_EPOCHS)


def derive_seed(*parts: int) -> int:
    """Return a seed of 63 bits that differs for any other parts."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def step_seeds(settings: RunSettings, trial: int, epoch: int, rank: int, batches: int) -> list[int]:
    """Return for each batch of an epoch the seed of what its step draws at random, as dropout does."""
    sequence = np.random.SeedSequence((settings.seed, trial, epoch, rank))
    seeds: list[int] = (sequence.generate_state(batches, np.uint64) >> np.uint64(1)).tolist()
    return seeds


def seed_step(device: torch.device, seed: int) -> None:
    """Seed the generator of one device; `torch.manual_seed` walks through every kind of device that torch knows."""
    generators = torch.cuda.default_generators
    (generators[device.index] if device.type == "cuda" else torch.default_generator).manual_seed(seed)


def shuffled_batches(nodes: Ids, settings: RunSettings, trial: int, epoch: int) -> list[Ids]:
    """Return an epoch's global batches: the nodes in a fresh order."""
    order = np.random.default_rng([settings.seed, trial, epoch]).permutation(nodes)
    return split_batches(order, settings.batch_size)


def split_batches(nodes: Ids, size: int) -> list[Ids]:
    """Return the nodes in order, in batches; the last may be smaller."""
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def share_of_rank(batches: Sequence[Ids], rank: int, world: int) -> list[Ids]:
    """Return a rank's part of every global batch. Where none is left for it, it repeats a node, with weight 0."""
    return [part if len(part := batch[rank::world]) else batch[:1] for batch in batches]
