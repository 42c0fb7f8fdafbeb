"""What host code computes with: numbers as plan expressions, buffers, dim3, types, and what could not be read.

Host names stand in the texts between marks until `matching` knows the problem's names: a tensor as `‹x›`, a number
that the host function is given as `‹#n›`, a variable that could not be read as `‹!n›`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cutegen_core.records.errors import UsageError
from cutegen_core.share.imports.plain_cu.source import SourceFile
from cutegen_core.share.imports.plain_cu.tokens import CodeToken

DTYPES: Mapping[str, str] = {
    "float": "float32", "float2": "float32", "float4": "float32", "double": "float64", "double2": "float64",
    "half": "float16", "__half": "float16", "half2": "float16", "__half2": "float16", "at::Half": "float16",
    "c10::Half": "float16", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__nv_bfloat162": "bfloat16",
    "at::BFloat16": "bfloat16", "c10::BFloat16": "bfloat16", "int": "int32", "int32_t": "int32",
    "std::int32_t": "int32", "unsigned": "int32", "unsigned int": "int32", "uint32_t": "int32",
    "int64_t": "int64", "std::int64_t": "int64", "long": "int64", "long long": "int64", "size_t": "int64",
    "int16_t": "int16", "short": "int16", "int8_t": "int8", "signed char": "int8", "char": "int8",
    "__nv_fp8_e4m3": "float8_e4m3fn", "at::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e4m3fn": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2", "at::Float8_e5m2": "float8_e5m2", "c10::Float8_e5m2": "float8_e5m2",
    "uint8_t": "uint8", "unsigned char": "uint8", "bool": "bool",
}  # fmt: skip
C_NAMES: Mapping[str, str] = {
    "float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16", "int32": "int",
    "int64": "long long", "int16": "short", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
    "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2",
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A plan expression; `level` is its precedence: 3 an atom, 2 a product, 1 a sum, 0 a condition."""

    text: str
    level: int = 3

    @property
    def value(self) -> int | None:
        return int(self.text) if re.fullmatch(r"-?\d+", self.text) else None

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True)
class HostBuffer:
    """A tensor or pointer of the host code.

    Attributes:
        name: the host's name.
        shape: of one that the host makes, where it can be read.
        like: the tensor whose shape it has.
        made: whether the host makes it.
        in_bytes: whether `shape` is a number of bytes.
    """

    name: str
    shape: tuple[Number, ...] | None = None
    like: str = ""
    made: bool = False
    zero: bool = False
    in_bytes: bool = False


@dataclass(frozen=True)
class Triple:
    """A dim3."""

    x: Value
    y: Value
    z: Value


@dataclass(frozen=True)
class TypeOf:
    """The dtype of a buffer (`x.scalar_type()`)."""

    buffer: str


@dataclass(frozen=True)
class Unread:
    """What could not be read, as it is written."""

    text: str
    line: int


Value = Number | HostBuffer | Triple | TypeOf | Unread
ONE = Number("1")
MOST_VALUES = 20_000


@dataclass
class HostFrame:
    """Names of a host function at one place.

    Attributes:
        run_helper: returns what the body of a helper function computes in a frame.
        types: type names, such as `scalar_t`, and what they stand for: a C++ type or a TypeOf.
        lambdas: local functions by name: parameters and body.
        unknown: variables whose value could not be read, shared by all frames of a walk.
        left: how many more values may be computed, shared by all frames of a walk.
        open: names of numbers that the problem states, not this program.
        arrays: initialisers of arrays, by name; `kernels` the variables that hold a kernel.
    """

    source: SourceFile
    run_helper: Callable[[HostFrame, tuple[CodeToken, ...]], Value]
    values: dict[str, Value] = field(default_factory=dict)
    types: dict[str, str | TypeOf] = field(default_factory=dict)
    lambdas: dict[str, tuple[tuple[str, ...], tuple[CodeToken, ...]]] = field(default_factory=dict)
    arrays: dict[str, tuple[tuple[CodeToken, ...], ...]] = field(default_factory=dict)
    kernels: dict[str, tuple[CodeToken, ...]] = field(default_factory=dict)
    unknown: dict[str, Unread] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    depth: int = 0
    left: list[int] = field(default_factory=lambda: [MOST_VALUES])

    def spend(self) -> None:
        """Count one more value; UsageError after too many, which functions that call one another can ask for."""
        self.left[0] -= 1
        if self.left[0] < 0:
            raise UsageError(f"{self.source.name}: its host code computes too much to be followed")

    def inner(self) -> HostFrame:
        return replace(
            self, values=dict(self.values), types=dict(self.types), lambdas=dict(self.lambdas),
            arrays=dict(self.arrays), kernels=dict(self.kernels),
        )  # fmt: skip
