"""Judge a problem by runs of its reference: would answers that compute nothing pass?

Numpy only; the reference worker runs the reference and passes its outputs in. The comparison that judges kernels
(`correctness.compare`) decides whether such an answer would pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import OutputValues
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Tolerance
from cutegen_core.records.trial import WIDE

Array = NDArray[Any]

_MOSTLY = 0.95
_NARROW = 1e-2


class BrokenLintRule(NamedTuple):
    """A violated rule of the lint, and how the problem violates it."""

    rule: str
    what: str


@dataclass(frozen=True)
class ObservedOutput:
    """One output under every kind of run; floats as float64.

    Attributes:
        dtype: as declared.
        want: in float64; at the declared precision if the reference cannot run in float64.
        declared: at the declared precision, from the first call.
        twice, fresh, reseeded: from a second call on the same inputs; from a new module; with another generator state.
        other: for the inputs of another seed.
        rounded: for inputs rounded to half the precision; None if rounding changes nothing.
        without: by input name: with only that input taken from another seed.
    """

    name: str
    dtype: str
    want: Array
    declared: Array
    twice: Array
    fresh: Array
    reseeded: Array
    other: Array
    rounded: Array | None
    without: Mapping[str, Array]


@dataclass(frozen=True)
class ObservedInput:
    """One tensor of the signature under two seeds.

    Attributes:
        drawn: it comes from get_inputs, so it is no parameter or buffer.
        again: the first seed's values, generated a second time.
        changed: a call has written to it.
    """

    name: str
    drawn: bool
    first: Array
    second: Array
    again: Array
    changed: bool


@dataclass(frozen=True)
class Facts:
    """Observations at one small workload.

    Attributes:
        layers: class names of the module and its children.
        no_float64: why there are no float64 expectations, "" if there are.
        relaxed: the problem allows a lower precision by name.
        left_open: what PyTorch leaves open, and an output depends on, or "".
        own_specials: infinities and NaN in outputs come only from those that the file gives its inputs, or writes.
    """

    inputs: Sequence[ObservedInput]
    outputs: Sequence[ObservedOutput]
    layers: frozenset[str]
    no_float64: str
    relaxed: bool
    left_open: str = ""
    own_specials: bool = False


def check_facts(facts: Facts, tolerance: Mapping[str, Tolerance]) -> Iterator[BrokenLintRule]:
    """Yield all doubts; if inputs are not reproducible, yield only that.

    Args:
        tolerance: of each output, by its name.
    """
    unseeded = [i.name for i in facts.inputs if not _same(i.first, i.again)]
    if unseeded:
        yield BrokenLintRule("unseeded-inputs", f"{', '.join(unseeded)}: other values under the same seed.")
        return
    for output in facts.outputs:
        yield from _check_output(output, facts, tolerance.get(output.name, Tolerance(0.0, 0.0)))
    for tensor in facts.inputs:
        yield from _check_input(tensor)
    yield from _check_layers(facts.layers)
    if facts.left_open:
        yield BrokenLintRule("open-choice", f"{facts.left_open}, and an output depends on it.")
    if facts.no_float64:
        yield BrokenLintRule(
            "no-float64", f"expected values are computed at the declared precision: float64 fails ({facts.no_float64})."
        )


def _check_layers(layers: frozenset[str]) -> Iterator[BrokenLintRule]:
    if any("Dropout" in layer for layer in layers):
        yield BrokenLintRule("dropout-off", "dropout is switched off.")
    if any("BatchNorm" in layer for layer in layers):
        yield BrokenLintRule("batch-norm-training", "batch normalisation is in training mode.")


def _check_output(output: ObservedOutput, facts: Facts, tolerance: Tolerance) -> Iterator[BrokenLintRule]:
    unstable = _unstable(output)
    if unstable:
        yield unstable
    elif output.want.size == 0:
        yield BrokenLintRule("empty-output", f"{output.name} has no elements.")
    elif not (facts.own_specials or np.isfinite(output.declared).all()):
        share = 1 - np.isfinite(output.declared).mean()
        yield BrokenLintRule("nonfinite-output", f"{output.name}: {share:.1%} of it is NaN or Inf on its own inputs.")
    else:
        yield from _find_cheats(output, facts, tolerance)
        yield from _check_precision(output)


def _check_precision(output: ObservedOutput) -> Iterator[BrokenLintRule]:
    precision = correctness.measure(output.want, output.declared)
    times = correctness.widening(output.dtype, DEFAULT_TOLERANCE.get(output.dtype, Tolerance(0.0, 0.0)), precision)
    if times > WIDE:
        what = (
            f"{output.name}: its {output.dtype} result is {precision.own:.2g} from its float64 result, where outputs "
            f"reach {precision.scale:.3g}; kernels may err by {times:.2g} times the usual tolerance."
        )
        yield BrokenLintRule("inexact-reference", what)


def _unstable(output: ObservedOutput) -> BrokenLintRule | None:
    """Return why the reference has no single answer, or None if it has one."""
    if not _same(output.declared, output.fresh):
        return BrokenLintRule("nondeterministic", f"{output.name}: two runs on the same inputs and seed differ.")
    if not _same(output.declared, output.twice):
        return BrokenLintRule("stateful", f"{output.name}: a second call on the same inputs gives another answer.")
    if not _same(output.declared, output.reseeded):
        return BrokenLintRule(
            "random-output", f"{output.name} is random: it depends on the state of the random generator."
        )
    return None


def _find_cheats(output: ObservedOutput, facts: Facts, tolerance: Tolerance) -> Iterator[BrokenLintRule]:
    """Yield the wrong answers that would pass."""

    def passes(got: Array) -> bool:
        return got.shape == output.want.shape and _passes(output, got, tolerance)

    name, want = output.name, output.want
    if passes(np.zeros_like(want)):
        yield BrokenLintRule("zeros-pass", f"{name}: a kernel that writes zeros passes.")
    elif want.size > 1 and (want == want.reshape(-1)[0]).all():
        yield BrokenLintRule("constant-output", f"{name} is the same value everywhere.")
    elif want.size > 1 and want.dtype.kind == "f" and passes(np.full_like(want, want.mean())):
        yield BrokenLintRule("mean-passes", f"{name}: a kernel that writes the output's mean everywhere passes.")
    elif want.size > 1 and _commonest(want) > _MOSTLY:
        yield BrokenLintRule("mostly-one-value", f"{name}: {_commonest(want):.1%} of it is one and the same value.")
    copied = next((i.name for i in facts.inputs if i.first.size == want.size and passes(_as(i.first, want))), "")
    if copied:
        yield BrokenLintRule("copy-passes", f"{name}: a kernel that copies {copied} passes.")
    yield from _check_independence(output, facts, passes_other=passes(output.other), passes=passes)
    if output.rounded is not None and not facts.relaxed and not copied and passes(output.rounded):
        yield BrokenLintRule(
            "half-passes", f"{name}: what it gives on inputs of half the bits passes as {output.dtype}."
        )


def _check_independence(
    output: ObservedOutput, facts: Facts, *, passes_other: bool, passes: Callable[[Array], bool]
) -> Iterator[BrokenLintRule]:
    if passes_other:
        yield BrokenLintRule("ignores-inputs", f"{output.name} does not depend on the inputs (within the tolerance).")
        return
    if len(facts.outputs) > 1:
        return  # each output may depend on different inputs
    varied = [i.name for i in facts.inputs if not _same(i.first, i.second)]
    ignored = [name for name in varied if name in output.without and passes(output.without[name])]
    if ignored:
        what = f"{output.name} stays within the tolerance whatever {', '.join(ignored)} is."
        yield BrokenLintRule("untested-input", what)


def _check_input(tensor: ObservedInput) -> Iterator[BrokenLintRule]:
    name, values = tensor.name, tensor.first
    if tensor.changed:
        yield BrokenLintRule("writes-inputs", f"forward writes to {name}.")
    if not tensor.drawn or values.size < 2:
        return
    if _same(values, tensor.second):
        yield BrokenLintRule("fixed-input", f"{name} has the same values for every seed.")
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return
    low, high = float(values.min()), float(values.max())
    if high - low <= _NARROW * max(abs(low), abs(high)):
        yield BrokenLintRule("narrow-inputs", f"all of {name} lies between {low:.4g} and {high:.4g}.")
    elif low >= 0 or high <= 0:
        yield BrokenLintRule(
            "one-sign", f"{name} is never {'negative' if low >= 0 else 'positive'} ({low:.3g} to {high:.3g})."
        )


def _passes(output: ObservedOutput, got: Array, tolerance: Tolerance) -> bool:
    answer = OutputValues(got, output.want, output.declared, np.zeros(got.shape, dtype=bool))
    return correctness.compare(output.name, output.dtype, tolerance, answer).wrong == 0


def _as(given: Array, want: Array) -> Array:
    return given.reshape(want.shape).astype(want.dtype)


def _same(left: Array, right: Array) -> bool:
    return left.shape == right.shape and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def _commonest(values: Array) -> float:
    """Return the share of the most frequent value."""
    return float(np.unique(values, return_counts=True)[1].max() / values.size)
