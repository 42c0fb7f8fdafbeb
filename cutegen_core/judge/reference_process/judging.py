"""Compare a kernel's outputs with the expected values that came from a file's process, which may have sent anything."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import OutputValues, Precision
from cutegen_core.judge.reference_process import values
from cutegen_core.judge.reference_process.derived_values import Basis
from cutegen_core.judge.reference_process.expected import Expected, to_array
from cutegen_core.judge.reference_process.loading.live import dtype_name
from cutegen_core.judge.reference_process.worker import MOST_SAMPLES
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import ITEMSIZE, TensorRole, TensorSpec, Tolerance

_WIDEST = 8
_MOST_OTHERS = 8
_SAMPLES_BYTES = 1 << 20
_LONGEST_REASON, _LONGEST_SUM = 2000, 1 << 20
_NOT_OF_THAT_FORM = (KeyError, TypeError, ValueError, AttributeError, OverflowError, StopIteration)


class Derived(NamedTuple):
    """Expected outputs on derived values, and what each is judged by."""

    expected: Expected
    bases: Sequence[Basis]


def spec_from(data: Message) -> TensorSpec:
    """Read a spec that the engine sent."""
    return TensorSpec(data["name"], data["dtype"], tuple(data["shape"]), TensorRole(data["role"]))


def describe_specs(specs: Sequence[TensorSpec]) -> list[Message]:
    """Return the specs as a file's process describes its tensors."""
    return [{"dtype": spec.dtype, "shape": list(spec.shape), "name": spec.name} for spec in specs]


def most_expected_bytes(outputs: Sequence[TensorSpec]) -> int:
    """Return how large the expected values of these outputs can be, with their samples and other right answers."""
    return (2 + _MOST_OTHERS) * _WIDEST * sum(spec.numel for spec in outputs) + _SAMPLES_BYTES


def to_tensor(frame: bytearray, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor of these raw bytes.

    Raises:
        ProblemError: their number does not fit.
    """
    spec = TensorSpec("", dtype, shape)
    if len(frame) != spec.nbytes:
        raise ProblemError(f"the reference sent {len(frame)} bytes for a tensor of {spec.nbytes}.")
    return values.from_raw(frame, spec)


def read_expected(message: Message, frames: Sequence[bytearray], outputs: Sequence[TensorSpec]) -> list[Expected]:
    """Return the expected outputs: of the request's seed, then of further ones.

    Raises:
        ProblemError: they do not fit the outputs.
    """
    rest = iter(frames)
    try:
        described = message["expected"]
        if not 1 <= len(described) <= 1 + MOST_SAMPLES:
            raise ValueError(f"{len(described)} sets of outputs")
        return [_read_one(one, rest, outputs) for one in described]
    except _NOT_OF_THAT_FORM as error:
        raise ProblemError(f"the reference's process sent no expected values: {error}") from error


def read_derived(message: Message, frames: Sequence[bytearray], outputs: Sequence[TensorSpec]) -> Derived | None:
    """Read the expected outputs on derived values; None if nothing can be judged on them.

    Raises:
        ProblemError: they do not fit the outputs.
    """
    rest = iter(frames)
    try:
        if not message["expected"]:
            return None
        (described,) = message["expected"]
        expected = _read_one(described, rest, outputs)
        return Derived(expected, [_read_basis(*pair, rest) for pair in zip(message["bases"], outputs, strict=True)])
    except _NOT_OF_THAT_FORM as error:
        raise ProblemError(f"the reference's process sent no expected values: {error}") from error


def compare_derived(request: Message, outputs: Sequence[TensorSpec], derived: Derived) -> list[Message]:
    """Read the kernel's outputs and judge each by its basis, if it has one without doubt."""
    found = []
    for k, (given, basis) in enumerate(zip(request["outputs"], derived.bases, strict=True)):
        if basis.doubt:
            continue
        answer = _pair(outputs[k], Path(given["path"]), derived.expected, k, request["poison"])
        answer = replace(answer, others=basis.others)
        spec = outputs[k]
        judged = correctness.compare(spec.name, spec.dtype, _tolerance(given), answer, basis.precision)
        found.append(replace(judged, widening=0.0))  # such values are hard for the reference, too
    return [asdict(comparison) for comparison in found]


def compare(
    request: Message, outputs: Sequence[TensorSpec], expected: Expected, samples: Sequence[Sequence[Precision]]
) -> list[Message]:
    """Read the kernel's outputs and judge each."""
    measured = measure_outputs(expected)
    found = []
    for k, (given, spec) in enumerate(zip(request["outputs"], outputs, strict=True)):
        precision = functools.reduce(Precision.merge, (s[k] for s in samples), measured[k]) if measured else None
        answer = _pair(spec, Path(given["path"]), expected, k, request["poison"])
        judged = correctness.compare(spec.name, spec.dtype, _tolerance(given), answer, precision)
        found.append(asdict(replace(judged, no_float64=expected.why)))
    return found


def measure_outputs(expected: Expected) -> tuple[Precision, ...]:
    """Return the reference's own error and scale per output; empty without float64 values."""
    if expected.exact is None:
        return ()
    pairs = zip(expected.exact, expected.declared, strict=True)
    return tuple(_measure(exact, declared, expected.longest_sum) for exact, declared in pairs)


def _measure(exact: torch.Tensor, declared: torch.Tensor, longest_sum: int) -> Precision:
    dtype = dtype_name(declared)
    return correctness.with_sum(correctness.measure(to_array(exact), to_array(declared), dtype), dtype, longest_sum)


def _tolerance(given: Message) -> Tolerance:
    return Tolerance(given["atol"], given["rtol"], given["error_multiple"])


def _read_basis(described: Message, output: TensorSpec, frames: Iterator[bytearray]) -> Basis:
    precision, many = described["precision"], described["others"]
    if not 0 <= many <= _MOST_OTHERS:
        raise ValueError(f"{many} other answers")
    others = (to_tensor(next(frames), "float64", output.shape) for _ in range(many))
    return Basis(
        None if precision is None else Precision(*(float(precision[key]) for key in ("own", "scale", "typical"))),
        tuple(to_array(other) for other in others),
        str(described["doubt"])[:_LONGEST_REASON],
    )


def _read_one(described: Message, frames: Iterator[bytearray], outputs: Sequence[TensorSpec]) -> Expected:
    declared = _read_tensors(described["declared"], frames, outputs)
    exact = None if described["exact"] is None else _read_tensors(described["exact"], frames, outputs)
    why = str(described["why"])[:_LONGEST_REASON]
    if len(described["others"]) > _MOST_OTHERS:
        raise ValueError(f"{len(described['others'])} other answers")
    others = tuple(_read_tensors(one, frames, outputs) for one in described["others"])
    longest = min(int(described["longest_sum"]), _LONGEST_SUM)
    return Expected(declared, exact, why if exact is None else "", others=others, longest_sum=longest)


def _read_tensors(
    described: Sequence[Message], frames: Iterator[bytearray], outputs: Sequence[TensorSpec]
) -> tuple[torch.Tensor, ...]:
    if len(described) != len(outputs):
        raise ProblemError(f"the reference gives {len(described)} outputs under this seed, not {len(outputs)}.")
    return tuple(_read_tensor(one, next(frames), spec) for one, spec in zip(described, outputs, strict=True))


def _read_tensor(described: Message, frame: bytearray, output: TensorSpec) -> torch.Tensor:
    dtype, shape = described["dtype"], tuple(described["shape"])
    if shape != output.shape:
        raise ProblemError(f"{output.name} is {output.shape}, but the reference gives {shape}.")
    if dtype not in ITEMSIZE:
        raise ValueError(f"an output of dtype {dtype}")
    return to_tensor(frame, dtype, shape)


def _pair(spec: TensorSpec, path: Path, expected: Expected, position: int, poison: int) -> OutputValues:
    """Return an output of the kernel together with its expected values."""
    declared, exact = expected.declared[position], expected.exact[position] if expected.exact is not None else None
    got = values.read_raw(path, spec)
    word = np.dtype(f"u{spec.itemsize}")
    return OutputValues(
        got=to_array(got.view(torch.uint8) if got.dtype is torch.bool else got),  # a byte of 2 is no bool
        want=to_array(declared if exact is None else exact),
        declared=None if exact is None else to_array(declared),
        others=tuple(to_array(answer[position]) for answer in expected.others),
        poison=(values.to_bytes(got).view(word) == np.frombuffer(bytes([poison]) * spec.itemsize, word)).reshape(
            spec.shape
        ),
    )
