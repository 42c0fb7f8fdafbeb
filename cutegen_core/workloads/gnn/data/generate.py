"""Generate graphs with classes: the features of a node alone tell little about its class, its neighbourhood tells much.

Edges join two nodes of the same class with a fixed probability, else of two different ones: the stochastic block
model (Holland, Laskey, Leinhardt 1983) with a fixed number of edges. With power-law degrees it is the degree-corrected
one (Karrer, Newman 2011): both ends are drawn with the weights of Chung and Lu (2002), w(rank) ~ (rank + offset)^-2/3,
whose degrees follow a power law with exponent 2.5.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.data.rows import Chunk, Edges, build_rows
from cutegen_core.workloads.gnn.graph import Array, GraphData, Ids, Splits
from cutegen_core.workloads.gnn.native.abi import PairModel, address, native

_PAIRS = 1 << 20
_ROWS = 1 << 16
_POWER = 3
"""1 / (1 - 2/3): the weights' distribution function is linear in (rank + offset)^(1/3)."""
_HEAD = 10.0
"""The offset of ranks, which keeps the largest hub from being a neighbour of all."""
_TRAIN, _VALID = 0.5, 0.25
_ALONE, _TOGETHER = 0.5, 0.975
"""Accuracy of the best guess from a node's features, and from its neighbours' classes as well."""


def generate_blocks(nodes: int, degree: int, classes: int, width: int, seed: int) -> GraphData:
    """Return a stochastic block model whose nodes have `degree` neighbours in the mean."""
    return _generate("blocks", nodes, degree, classes, width, seed, power=1, offset=0.0)


def generate_power_law(nodes: int, degree: int, classes: int, width: int, seed: int) -> GraphData:
    """Return a degree-corrected stochastic block model with power-law degrees, `degree` in the mean."""
    return _generate("power-law", nodes, degree, classes, width, seed, power=_POWER, offset=_HEAD)


def _generate(
    name: str, nodes: int, degree: int, classes: int, width: int, seed: int, *, power: int, offset: float
) -> GraphData:
    fits = 1 <= classes <= width and nodes >= 4 * classes and 1 <= degree < nodes / classes
    if not fits or seed < 0:
        raise UsageError(
            f"cannot generate a graph of {nodes} nodes with degree {degree}, {classes} classes, {width} features and "
            f"seed {seed}: it needs 1 to `width` classes, four nodes a class, a degree of at least 1 and below "
            "nodes / classes, and a seed of at least 0."
        )
    random = np.random.default_rng(seed)
    names = random.permutation(nodes)
    labels = np.empty(nodes, np.int64)
    labels[names] = np.arange(nodes) % classes
    low, high = offset ** (1 / power), (nodes + offset) ** (1 / power)
    model = PairModel(nodes, classes, same_class_share(classes, degree), low, high, offset, power)
    edges = _draw_edges(model, names, nodes * degree // 2, int(random.integers(2**62)))
    rows = build_rows(name, nodes, edges, undirected=True)
    features = _draw_features(labels, classes, width, random)
    splits = _split(random.permutation(nodes))
    return GraphData(
        f"{name}-{nodes}-{degree}", rows.indptr, np.ascontiguousarray(rows.indices), features, labels, classes, splits
    )


def _draw_edges(model: PairModel, names: Ids, count: int, seed: int) -> Edges:
    def draw() -> Iterator[Chunk]:
        for number, first in enumerate(range(0, count, _PAIRS)):
            size = min(_PAIRS, count - first)
            source, target = np.empty(size, np.int64), np.empty(size, np.int64)
            state = int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0])
            native().draw_pairs(ctypes.byref(model), state, size, address(names), address(source), address(target))
            yield Chunk(source, target)

    return draw


def _draw_features(labels: Ids, classes: int, width: int, random: np.random.Generator) -> Array:
    """Return standard normal noise around means of the classes that are orthogonal and equally far from 0."""
    basis = np.linalg.qr(random.standard_normal((width, classes)))[0].T
    means = (separation(classes) * basis).astype(np.float32)
    features = np.empty((len(labels), width), np.float16)
    for first in range(0, len(labels), _ROWS):
        chunk = labels[first : first + _ROWS]
        noise = random.standard_normal((len(chunk), width), dtype=np.float32)
        features[first : first + _ROWS] = noise + means[chunk]
    return features


def _split(shuffled: Ids) -> Splits:
    train, valid = (int(len(shuffled) * share) for share in (_TRAIN, _TRAIN + _VALID))
    return Splits(*(np.sort(part) for part in np.split(shuffled, [train, valid])))


def separation(classes: int) -> float:
    """Return how far the classes' means lie from 0 so that the features alone are guessed right half of the time.

    With s this distance, the best guess from the features is right with the integral of phi(x - s) Phi(x)^(classes - 1)
    over x. With two classes, of which chance guesses half, three quarters are right.
    """
    wanted = _ALONE if classes > 2 else 0.75
    x = np.linspace(-9.0, 15.0, 4801)
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in x]) ** (classes - 1)

    def right(s: float) -> float:
        return float(np.sum(np.exp(-((x - s) ** 2) / 2) * below) * (x[1] - x[0]) / math.sqrt(2 * math.pi))

    return _solve(right, wanted, 0.0, 6.0)


@functools.cache
def same_class_share(classes: int, degree: int) -> float:
    """Return the share of neighbours of a node's own class with which its features and its neighbours' classes tell
    the class 97.5 % of the time (simulated). A model that sees its neighbours' noisy features learns some 90 %."""
    if classes == 1:
        return 1.0
    random = np.random.default_rng(0)
    samples = 10_000
    degrees = np.maximum(random.poisson(degree, samples), 1)
    own = random.standard_normal((samples, classes))
    own[:, 0] += (distance := separation(classes))
    draws = random.random((samples, 2, int(degrees.max())))
    counted = np.arange(draws.shape[2]) < degrees[:, None]
    row = (np.arange(samples) * classes)[:, None]

    def right(same: float) -> float:
        other = 1 + np.floor(draws[:, 1] * (classes - 1)).astype(np.int64)
        drawn = np.where(draws[:, 0] < same, 0, other)
        votes = np.bincount((row + drawn)[counted], minlength=samples * classes).reshape(samples, classes)
        odds = math.log(same * (classes - 1) / (1 - same))
        return float((np.argmax(votes * odds + own * distance, 1) == 0).mean())

    return _solve(right, _TOGETHER, 1 / classes + 1e-3, 1 - 1e-3)


def _solve(function: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return where an ascending function takes a value."""
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return (low + high) / 2
