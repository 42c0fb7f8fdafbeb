"""Records of a problem: reference, signature, workloads and tolerance.

The reference is Python source in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`). It is untrusted code:
this package never imports it, only the reference worker runs it. A workload is the same source with some module-level
sizes replaced, so one file serves both the benchmark shape and the small, awkward shapes for the emulator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

ITEMSIZE: Mapping[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


class TensorRole(StrEnum):
    """Origin of a tensor of the signature."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    OUTPUT = "output"


class WorkloadRole(StrEnum):
    """Purpose of a workload. EMULATOR: small and ragged sizes; BENCHMARK: the problem's own sizes."""

    EMULATOR = "emulator"
    CORRECTNESS = "correctness"
    BENCHMARK = "benchmark"


class Values(StrEnum):
    """Distribution of a workload's inputs; GIVEN keeps the values that `get_inputs` returns."""

    GIVEN = "given"
    LARGE_MEAN = "large_mean"
    LARGE_SCALE = "large_scale"
    ONE_HOT = "one_hot"
    SPARSE = "sparse"
    DENORMAL = "denormal"
    NEGATIVE_MEAN = "negative_mean"
    ALL_NEGATIVE = "all_negative"
    WIDE = "wide"
    HUGE = "huge"
    VAST = "vast"
    TINY = "tiny"
    SIGNED_ZEROS = "signed_zeros"
    NEAR_CONSTANT = "near_constant"
    CONSTANT = "constant"
    DOMINANT = "dominant"
    DOMINANT_ACROSS = "dominant_across"
    CANCELLING = "cancelling"
    SORTED = "sorted"
    SLICE = "slice"
    EXACT = "exact"
    PARAMETERS = "other_parameters"
    NAN = "nan"
    INFINITE = "infinite"
    LOWEST = "lowest"
    HIGHEST = "highest"
    RANGE_ENDS = "range_ends"
    HUB = "hub"


WHOLE_VALUES = (Values.LOWEST, Values.HIGHEST, Values.RANGE_ENDS, Values.HUB)
"""Values of inputs of whole numbers and bools; all others change floating inputs, and one floating parameters."""

SPECIAL_VALUES = (Values.NAN, Values.INFINITE)

FINITE_MATH = "finite_math"
"""In a problem's ALLOW: its inputs have no NaN and no infinities, so no kernel is judged on them."""


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the signature. Every process passes it contiguous, in logical (row-major) order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: TensorRole = TensorRole.INPUT

    def __post_init__(self) -> None:
        if self.dtype not in ITEMSIZE:
            known = ", ".join(ITEMSIZE)
            raise ValueError(f"tensor {self.name}: dtype {self.dtype!r} is not supported (one of {known})")

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> int:
        return self.numel * self.itemsize

    @property
    def stride(self) -> tuple[int, ...]:
        """Row-major strides in elements."""
        strides, step = [], 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))


@dataclass(frozen=True)
class Signature:
    """Tensors and numbers that a kernel of one workload reads, and tensors that it must fill.

    Attributes:
        inputs: `forward` arguments by name, then parameters and buffers by dotted name with `_` for `.`.
        outputs: `out`, or `out0`, `out1`, ...
        scalars: plain numbers of the module and of `forward` (`eps`, `negative_slope`), by name.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return self.inputs + self.outputs

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)

    def tensor(self, name: str) -> TensorSpec:
        """Return the tensor with that name.

        Raises:
            KeyError: the signature has no such tensor.
        """
        for spec in self.tensors:
            if spec.name == name:
                return spec
        raise KeyError(name)


@dataclass(frozen=True)
class Workload:
    """One concrete set of shapes: the reference's source with module-level sizes replaced.

    Attributes:
        sizes: module-level name -> int, float or tuple that replaces its literal.
        values: distribution of the floating inputs.
        tolerance: by output name or dtype, in front of the problem's; empty for a workload without its own.
    """

    name: str
    role: WorkloadRole
    sizes: Mapping[str, int | float | tuple[int, ...]] = field(default_factory=dict)
    values: Values = Values.GIVEN
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)


def size_label(name: str) -> str:
    """Return a size's name as people read it: `get_inputs#2` is "number 3 of get_inputs"."""
    place, numbered, position = name.partition("#")
    return f"number {int(position) + 1} of {place}" if numbered else name


def list_sizes(sizes: Mapping[str, int | float | tuple[int, ...]]) -> str:
    """Return sizes as people read them: "rows = 64, number 1 of get_inputs = 8"."""
    return ", ".join(f"{size_label(name)} = {value}" for name, value in sizes.items())


@dataclass(frozen=True)
class Tolerance:
    """Limits on the error of an output.

    An output is right if every element satisfies |got - want| <= atol + rtol * |want| and its error is at most
    `error_multiple` times the reference's own error at the declared precision (or 4 ulp at the output's scale,
    whichever is larger). A float of 8 or 16 bits may also be half a unit in its last place away, which its rounding
    costs; of 16 bits the 4 ulp are the element's, or one at the root of the output's mean square.
    """

    atol: float
    rtol: float
    error_multiple: float = 32.0


DEFAULT_TOLERANCE: Mapping[str, Tolerance] = {
    "float64": Tolerance(1e-10, 1e-10),
    "float32": Tolerance(1e-4, 1e-4),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(2e-2, 2e-2),
    "float8_e4m3fn": Tolerance(1e-3, 1e-2),
    "float8_e5m2": Tolerance(1e-3, 1e-2),
}


@dataclass(frozen=True)
class Problem:
    """A reference with everything needed to judge a kernel of it.

    Attributes:
        name: short identifier, the file's stem.
        title: one line for lists.
        source: Python text of the reference.
        origin: "built-in" or the absolute path of the file.
        tolerance: by output name or dtype; an output that neither names uses `DEFAULT_TOLERANCE`.
        allow: relaxations a kernel may declare, such as "tf32" or "fast_math".
        existing: kernel file that is in use today, the one to beat; "" for a problem that begins without one.
    """

    name: str
    title: str
    source: str
    origin: str
    workloads: tuple[Workload, ...]
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    existing: str = ""

    @property
    def key(self) -> str:
        """Content address: equal references, workloads, tolerances and existing kernels have equal keys, whatever file
        they come from.
        """
        workloads = [
            (w.name, w.role, sorted(w.sizes.items()), w.values, *([_facts(w.tolerance)] if w.tolerance else []))
            for w in self.workloads
        ]
        tolerance = _facts(self.tolerance)
        facts = [self.source, workloads, tolerance, list(self.allow), *([self.existing] if self.existing else [])]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def tolerance_for(self, dtype: str, output: str = "", workload: Workload | None = None) -> Tolerance:
        """Return the tolerance of an output; integers and bools must match exactly.

        The workload's own tolerance comes before the problem's, and in each an output's name before its dtype.
        """
        given = (*((workload.tolerance,) if workload else ()), self.tolerance)
        found = (tolerance.get(key) for tolerance in given for key in (output, dtype))
        return next(filter(None, found), None) or DEFAULT_TOLERANCE.get(dtype) or Tolerance(0.0, 0.0)

    def find_unknown_output(self, signature: Signature) -> str:
        """Return the name of an output that has a tolerance but that the signature lacks, or ""."""
        known = {output.name for output in signature.outputs} | set(DEFAULT_TOLERANCE)
        given = (self.tolerance, *(workload.tolerance for workload in self.workloads))
        return next((name for tolerance in given for name in tolerance if name not in known), "")

    def with_role(self, *roles: WorkloadRole) -> tuple[Workload, ...]:
        """Return the workloads that have one of these roles, in order."""
        return tuple(w for w in self.workloads if w.role in roles)


def _facts(tolerance: Mapping[str, Tolerance]) -> list[tuple[str, float, float, float]]:
    return sorted((key, t.atol, t.rtol, t.error_multiple) for key, t in tolerance.items())
