"""What is doubtful about a problem, found by running its small workload: said before anyone works on it.

Numpy only; the reference worker runs the reference and hands in what came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutegen_core.problem import Tolerance

Array = NDArray[Any]


@dataclass(frozen=True)
class Facts:
    """Outputs of one small workload.

    Attributes:
        first, second: expected outputs for two seeds.
        again: those of the first seed's tensors once more, under another state of the random generator.
        dtypes: declared dtypes of the outputs.
        layers: class names of the module and its children.
        training: whether any layer other than dropout is in training mode.
        no_float64: why there are no float64 expectations, "" when there are.
    """

    first: Sequence[Array]
    second: Sequence[Array]
    again: Sequence[Array]
    dtypes: Sequence[str]
    layers: frozenset[str]
    no_float64: str


def findings(facts: Facts, tolerance: dict[str, Tolerance]) -> Iterator[str]:
    """One line per doubt."""
    yield from _layers(facts)
    for position, (want, other, again, dtype) in enumerate(
        zip(facts.first, facts.second, facts.again, facts.dtypes, strict=True)
    ):
        name = "out" if len(facts.first) == 1 else f"out{position}"
        yield from _output(name, want, other, again, tolerance.get(dtype, Tolerance(0.0, 0.0)))
    if facts.no_float64:
        yield f"expected values are computed at the declared precision, since float64 fails ({facts.no_float64})."


def _layers(facts: Facts) -> Iterator[str]:
    if any("Dropout" in layer for layer in facts.layers):
        yield "dropout is switched off: no kernel can reproduce its mask."
    if any("BatchNorm" in layer for layer in facts.layers):
        yield "batch normalisation is in training mode, as KernelBench runs it: it uses the batch's statistics."


def _output(name: str, want: Array, other: Array, again: Array, tolerance: Tolerance) -> Iterator[str]:
    if not np.array_equal(want, again, equal_nan=want.dtype.kind == "f"):
        yield f"{name} is random: two runs on the same tensors differ, so no kernel can match it."
        return
    if want.size == 0:
        yield f"{name} is empty."
        return
    values = want.astype(np.float64)
    if not np.isfinite(values).all():
        yield f"{name} holds NaN or Inf on its own inputs."
        return
    allowed = tolerance.atol + tolerance.rtol * np.abs(values)
    if (np.abs(values) <= allowed).all():
        yield f"{name}: a kernel that writes zeros passes."
    elif want.size > 1 and (values == values.reshape(-1)[0]).all():
        yield f"{name} is the same value everywhere."
    elif want.size > 1 and (np.abs(values - values.mean()) <= allowed).all():
        yield f"{name}: the tolerance is wider than the output's spread, so a kernel that writes its mean passes."
    if want.shape == other.shape and (np.abs(values - other.astype(np.float64)) <= allowed).all():
        yield f"{name} does not depend on the inputs (within the tolerance)."
